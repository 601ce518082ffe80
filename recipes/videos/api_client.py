"""The Data API v3: searches and details of videos, cached, retried, and within the quota."""

from __future__ import annotations

import html
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from longshore import ConnectionFailedError, ProcessingError, SnoozeError, retry
from videos.config import VideoConfig

IDS_PER_CALL = 50
_TIMEOUT_SECONDS = 10
_DAY_ENDS = 8
"""The quota is given again at midnight in California: at this hour in UTC, or an hour earlier in summer."""


class QuotaExceededError(SnoozeError):
    """The quota of the day is used up: nothing can be asked until it is given again."""


class YouTubeClient:
    """Calls the Data API with one key."""

    def __init__(self, config: VideoConfig, now: Callable[[], float] = time.time) -> None:
        self._config = config
        self._now = now
        self._cache: dict[str, tuple[float, Any]] = {}
        self._closed_until = 0.0
        self.calls = 0

    def search(self, query: str, most: int) -> list[dict[str, Any]]:
        """Return the videos that match a query, best first."""
        # By id: a page may repeat a video of the page before.
        found: dict[str, dict[str, Any]] = {}
        page: str | None = ""
        while page is not None and len(found) < most:
            wanted = {"part": "snippet", "type": "video", "q": query, "maxResults": str(min(most - len(found), 50))}
            answer = self._get("search", wanted | ({"pageToken": page} if page else {}))
            for item in answer.get("items", []):
                if "videoId" in item.get("id", {}):
                    found.setdefault(item["id"]["videoId"], _found(item))
            page = answer.get("nextPageToken")
        return list(found.values())[:most]

    def videos(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the details of videos by id; those that do not exist are left out. 50 are asked for in one call."""
        found: dict[str, dict[str, Any]] = {}
        wanted = sorted(set(ids))
        for first in range(0, len(wanted), IDS_PER_CALL):
            several = ",".join(wanted[first : first + IDS_PER_CALL])
            answer = self._get("videos", {"part": "snippet,statistics,contentDetails", "id": several})
            found |= {item["id"]: _details(item) for item in answer.get("items", [])}
        return found

    def _get(self, path: str, query: dict[str, str]) -> Any:
        url = f"{self._config.base_url}/{path}?{urllib.parse.urlencode(query)}"
        kept = self._cache.get(url)
        if kept is not None and kept[0] > self._now():
            return kept[1]
        if self._closed_until > self._now():
            raise QuotaExceededError("The quota of the Data API is used up", self._closed_until - self._now())
        answer = self._ask(url)
        self._cache = {key: value for key, value in self._cache.items() if value[0] > self._now()}
        self._cache[url] = (self._now() + self._config.cache_seconds, answer)
        return answer

    @retry(max_attempts=4, backoff_factor=2, exceptions=(ConnectionFailedError,))
    def _ask(self, url: str) -> Any:
        self.calls += 1
        # The key is a header: a URL is shown in logs.
        request = urllib.request.Request(url, headers={"X-Goog-Api-Key": self._config.api_key})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
                return json.loads(response.read().decode("utf-8", "replace"))
        except urllib.error.HTTPError as error:
            self._refuse(error)
        except (OSError, ValueError) as error:
            raise ConnectionFailedError(f"The Data API does not answer: {error}") from error

    def _refuse(self, error: urllib.error.HTTPError) -> None:
        reason, message, reset = _reason(error)
        if reason == "quotaExceeded":
            self._closed_until = self._now() + (reset if reset is not None else _seconds_to_reset(self._now()))
            raise QuotaExceededError("The quota of the Data API is used up", self._closed_until - self._now())
        if error.code in {429, 500, 502, 503} or reason == "rateLimitExceeded":
            raise ConnectionFailedError(f"The Data API asks to wait ({error.code} {reason})")
        raise ProcessingError(f"The Data API refuses this ({error.code} {reason}): {message}", retryable=False)


def _reason(error: urllib.error.HTTPError) -> tuple[str, str, float | None]:
    """Return the reason and the message of an error, and the seconds after which to try again, if it says so."""
    try:
        told = json.loads(error.read())["error"]
        reason, message = told["errors"][0]["reason"], told["message"]
    except (OSError, ValueError, LookupError, TypeError):
        reason, message = "", error.reason
    after = error.headers.get("Retry-After", "")
    return str(reason), str(message), float(after) if after.isdecimal() else None


def _seconds_to_reset(now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    reset = today.replace(hour=_DAY_ENDS, minute=0, second=0, microsecond=0)
    return (reset - today).total_seconds() if reset > today else (reset + timedelta(days=1) - today).total_seconds()


def _found(item: dict[str, Any]) -> dict[str, Any]:
    snippet = item.get("snippet", {})
    return {
        "video_id": item["id"]["videoId"],
        # Titles in searches, and only there, are written as HTML.
        "title": html.unescape(snippet.get("title", "")),
        "channel": html.unescape(snippet.get("channelTitle", "")),
        "published_at": snippet.get("publishedAt"),
    }


def _details(item: dict[str, Any]) -> dict[str, Any]:
    snippet, statistics = item.get("snippet", {}), item.get("statistics", {})
    return {
        "video_id": item["id"],
        "title": snippet.get("title", ""),
        "channel": snippet.get("channelTitle", ""),
        "published_at": snippet.get("publishedAt"),
        "seconds": duration_seconds(item.get("contentDetails", {}).get("duration", "")),
        "views": _count(statistics.get("viewCount")),
        "likes": _count(statistics.get("likeCount")),
    }


def _count(text: str | None) -> int | None:
    """Return a number; None if the owner of the video hides it."""
    return int(text) if text is not None and text.isdecimal() else None


def duration_seconds(text: str) -> int | None:
    """Return an ISO 8601 duration such as `P1DT2H3M4S` in seconds; None if it is none."""
    days, mark, clock = text.removeprefix("P").partition("T")
    if not text.startswith("P") or (mark and not clock):
        return None
    total, number = 0, ""
    for part, units in ((days, {"W": 604_800, "D": 86_400}), (clock, {"H": 3600, "M": 60, "S": 1})):
        for letter in part:
            if letter.isdecimal():
                number += letter
            elif letter in units and number:
                total, number = total + int(number) * units[letter], ""
            else:
                return None
    return None if number else total
