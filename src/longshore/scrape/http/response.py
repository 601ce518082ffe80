"""What comes back from a server, and the errors that are made of it."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

from longshore.errors import ProcessingError
from longshore.stored import Json
from longshore.url import canonical_url, mask_url

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

    def __init__(self, url: str, status: int, *, final_url: str = "", retryable: bool | None = None) -> None:
        again = passes(status) if retryable is None else retryable
        # A page that is gone, and a redirect to one that wants a login, are two different troubles. The same page in
        # another spelling is none.
        moved = final_url not in ("", url) and canonical_url(final_url) != canonical_url(url)
        way = f" led to {mask_url(final_url)}, which" if moved else ""
        super().__init__(f"{mask_url(url)}{way} answered {in_words(status)}", retryable=again)
        self.url = url
        """What was asked for."""
        self.status = status
        self.final_url = final_url or url
        """What answered, after redirects."""

    def __reduce__(self) -> tuple[Callable[[str, int, str, bool], StatusError], tuple[str, int, str, bool]]:
        return _status_error, (self.url, self.status, self.final_url, self.retryable)


def _status_error(url: str, status: int, final_url: str, retryable: bool) -> StatusError:
    return StatusError(url, status, final_url=final_url, retryable=retryable)


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
        """The body as text, decoded as a browser does it; what does not fit is replaced.

        What the body begins with (a byte order mark) says how, or else the server, or else the page itself
        (`<meta charset>`, `<?xml encoding>`); where nobody does, it is UTF-8.
        """
        named, mark = read_bom(self.body)
        if named is not None and mark is not None:
            return self.body[len(mark) :].decode(named, errors="replace")
        kind = self.headers.get("Content-Type", "")
        encoding = http_content_type_encoding(kind)
        # Only markup declares: what looks like it in a text, or in a string of JSON, is about something else.
        if encoding is None and (not kind or "html" in kind.lower() or "xml" in kind.lower()):
            encoding = html_body_declared_encoding(self.body)
        try:
            return self.body.decode(encoding or "utf-8", errors="replace")
        except (LookupError, UnicodeError):
            # No such charset; or one that is none for pages, such as that of domain names.
            return self.body.decode(errors="replace")

    def json(self) -> Json:
        """The body read as JSON. Raises `ProcessingError` where it is none."""
        try:
            return msgspec.json.decode(self.body.removeprefix(codecs.BOM_UTF8))
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
