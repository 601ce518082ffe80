"""What comes back from a server, and the errors that are made of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import msgspec

from longshore.errors import ProcessingError
from longshore.url import mask_url

_PASSING = frozenset({408, 425, 429})
_PHRASES = {known.value: f" {known.phrase}" for known in HTTPStatus}
# Longer than any run, and short enough for every clock and medium.
_LONGEST = 10 * 365 * 24 * 3600.0


def passes(status: int) -> bool:
    """Whether an answer with this status may be another one later: 408, 425, 429 and 5xx."""
    return status >= 500 or status in _PASSING


def in_words(status: int) -> str:
    """`404 Not Found`."""
    return f"{status}{_PHRASES.get(status, '')}"


class StatusError(ProcessingError):
    """The server answered with an error. Worth another try for 408, 425, 429 and 5xx, and for no other.

    Unless it is said otherwise: where a pool of proxies is used a 403 is too, for another proxy may be let in.
    """

    def __init__(self, url: str, status: int, *, retryable: bool | None = None) -> None:
        again = passes(status) if retryable is None else retryable
        super().__init__(f"{mask_url(url)} answered {in_words(status)}", retryable=again)
        self.url = url
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return _status_error, (self.url, self.status, self.retryable)


def _status_error(url: str, status: int, retryable: bool) -> StatusError:
    return StatusError(url, status, retryable=retryable)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered, read to its end."""

    url: str
    """Where it came from, after redirects."""
    status: int = 200
    headers: Mapping[str, str] = {}
    """Found by name in any case."""
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as text, by the charset the server named, or UTF-8; what does not fit is replaced."""
        header = Message()
        header["Content-Type"] = self.headers.get("Content-Type", "")
        try:
            return self.body.decode(header.get_content_charset("utf-8"), errors="replace")
        except (LookupError, UnicodeError):
            # No such charset; or one that is none for pages, such as that of domain names.
            return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body read as JSON. Raises `ProcessingError` where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProcessingError(f"{mask_url(self.url)} did not answer with JSON: {error}") from error


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The seconds from `now` (since 1970) that an answer asks to be left alone; None where it does not say.

    It says so in seconds or as a date. What is neither says nothing; a date that has passed is 0.
    """
    said = headers.get("Retry-After", "").strip()
    if not said:
        return None
    if said.isascii() and said.replace(".", "", 1).isdigit():
        # Some say 1.5, though whole seconds are the rule.
        return min(float(said), _LONGEST)
    try:
        instant = parsedate_to_datetime(said).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(instant - (time.time() if now is None else now), 0.0), _LONGEST)
