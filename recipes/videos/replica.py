"""A replica of the Data API v3, unfriendly as the real one: pages, hidden fields, deleted videos, errors, a quota.

    python -m videos.replica --port 8001 [--quota 10000] [--reset-seconds 3]

`/truth.json` is what a perfect scrape finds. The data is made up, and the same in every run.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "replica-key"
TOPICS = ("harbour crane", "knots & ropes", "tide tables", "café Ω", "ship <model>")
_PER_TOPIC, _COSTS = 60, {"search": 100, "videos": 1}


def video_id(number: int) -> str:
    """Return the id of a video, in the form of the real ones."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"video {number}".encode()).digest()).decode()[:11]


def all_videos() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the topic of each video, and the video as a perfect scrape finds it."""
    chance = random.Random(7)  # noqa: S311 (the same in every run)
    for number in range(len(TOPICS) * _PER_TOPIC):
        topic = TOPICS[number % len(TOPICS)]
        yield (
            topic,
            {
                "video_id": video_id(number),
                "title": f"{topic.title()} “{number}” & more",
                "channel": f"Channel {chance.randrange(9)} <live>",
                "published_at": f"20{chance.randrange(10, 26)}-0{chance.randrange(1, 10)}-1{number % 10}T08:00:00Z",
                "seconds": chance.choice((0, 59, 253, 3600, 93_784)),
                "views": chance.randrange(10**7),
                "likes": None if number % 7 == 0 else chance.randrange(10**5),
            },
        )


VIDEOS = tuple(all_videos())
DELETED = frozenset(video_id(number) for number in range(10_000, 10_020))


def truth() -> dict[str, Any]:
    """Return the videos of each topic, best first, and the ids of videos that do not exist any more."""
    return {
        "topics": {topic: [video for of, video in VIDEOS if of == topic] for topic in TOPICS},
        "deleted": sorted(DELETED),
    }


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, minutes, left = rest // 3600, rest % 3600 // 60, rest % 60
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (left, "S")) if number)
    whole = f"{days}D" if days or not clock else ""
    return f"P{whole}T{clock}" if clock else f"P{whole}"


class Replica(ThreadingHTTPServer):
    """The server, with its quota."""

    daemon_threads = True

    def __init__(self, port: int, quota: int, reset_seconds: float) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.quota, self.reset_seconds = quota, reset_seconds
        self._lock = threading.Lock()
        self._used, self._until, self._requests = 0, 0.0, 0
        self.spent = self.refused = 0

    def spend(self, cost: int) -> float | None:
        """Take from the quota. Returns the seconds until it is given again, if it is used up."""
        with self._lock:
            now = time.monotonic()
            if self._until and now >= self._until:
                self._used, self._until = 0, 0.0
            if self._used + cost > self.quota:
                self._until = self._until or now + self.reset_seconds
                self.refused += 1
                return self._until - now
            self._used += cost
            self.spent += cost
            return None

    def fails(self) -> bool:
        """Return whether this request meets an error of the server: every ninth does."""
        with self._lock:
            self._requests += 1
            return self._requests % 9 == 0


class _Handler(BaseHTTPRequestHandler):
    server: Replica

    def do_GET(self) -> None:
        """Answer one request."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/truth.json":
                self._send(200, truth())
            case "/counts.json":
                self._send(200, {"spent": self.server.spent, "refused": self.server.refused})
            case "/youtube/v3/search" | "/youtube/v3/videos":
                self._api(parts.path.rpartition("/")[2], query)
            case _:
                self._refuse(404, "notFound")

    def _api(self, path: str, query: Mapping[str, str]) -> None:
        if KEY not in (self.headers.get("X-Goog-Api-Key"), query.get("key")):
            self._refuse(400, "keyInvalid")
        elif self.server.fails():
            self._refuse(*((500, "backendError"), (403, "rateLimitExceeded"))[self.server.spent % 2])
        elif (wait := self.server.spend(_COSTS[path])) is not None:
            self._refuse(403, "quotaExceeded", after=wait)
        elif path == "search":
            self._search(query)
        else:
            self._videos(query)

    def _search(self, query: Mapping[str, str]) -> None:
        wanted, first = query.get("q", "").lower(), int(query.get("pageToken", "0") or 0)
        # A page is shorter than asked for, as often in the real one, and repeats the last video of the page before.
        size = min(int(query.get("maxResults", "5")), 20)
        found = [video for topic, video in VIDEOS if topic.lower() == wanted]
        page = found[max(first - 1, 0) : first + size]
        items = [
            {
                "id": {"kind": "youtube#video", "videoId": each["video_id"]},
                "snippet": {
                    "title": html.escape(each["title"]),
                    "channelTitle": html.escape(each["channel"]),
                    "publishedAt": each["published_at"],
                },
            }
            for each in page
        ]
        if first == 0:
            items.insert(1, {"id": {"kind": "youtube#channel", "channelId": "UC1"}, "snippet": {"title": "a channel"}})
        more = {"nextPageToken": str(first + size)} if first + size < len(found) else {}
        self._send(200, {"kind": "youtube#searchListResponse", "items": items} | more)

    def _videos(self, query: Mapping[str, str]) -> None:
        ids = query.get("id", "").split(",")
        if len(ids) > 50:
            self._refuse(400, "invalidFilters")
            return
        by_id = {video["video_id"]: video for _, video in VIDEOS}
        items = []
        for each in (by_id[one] for one in ids if one in by_id):
            statistics = {"viewCount": str(each["views"])}
            if each["likes"] is not None:
                statistics["likeCount"] = str(each["likes"])
            snippet = {"title": each["title"], "channelTitle": each["channel"], "publishedAt": each["published_at"]}
            duration = {"duration": _duration(each["seconds"])}
            items.append(
                {"id": each["video_id"], "snippet": snippet, "statistics": statistics, "contentDetails": duration}
            )
        self._send(200, {"kind": "youtube#videoListResponse", "items": items})

    def _refuse(self, status: int, reason: str, *, after: float | None = None) -> None:
        error = {"code": status, "message": f"refused: {reason}", "errors": [{"reason": reason, "domain": "replica"}]}
        headers = {} if after is None else {"Retry-After": str(int(after) + 1)}
        self._send(status, {"error": error}, headers)

    def _send(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is Python's)
        """Log nothing."""


def main() -> None:
    """Serve until the process is ended."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8001)
    options.add_argument("--quota", type=int, default=10_000)
    options.add_argument("--reset-seconds", type=float, default=3.0)
    given = options.parse_args()
    with Replica(given.port, given.quota, given.reset_seconds) as server:
        print(f"The replica is at http://127.0.0.1:{server.server_address[1]}/youtube/v3", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
