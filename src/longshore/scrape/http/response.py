"""The response of a server, and the error for a failed status."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from longshore.errors import ProcessingError
from longshore.scrape.html.page import HtmlPage
from longshore.scrape.http.encodings import decode_page
from longshore.stored import Json
from longshore.url import canonical_url, mask_url

_TEMPORARY = frozenset({408, 425, 429})
_PHRASES = {known.value: f" {known.phrase}" for known in HTTPStatus}
_LONGEST_RETRY_AFTER = 24 * 3600.0
"""Seconds. A server that asks for more, by mistake or by malice, is tried again after this time."""


def is_temporary(status: int) -> bool:
    """Return whether this status may be temporary: 408, 425, 429 and 5xx."""
    return status >= 500 or status in _TEMPORARY


def in_words(status: int) -> str:
    """Return the status with its phrase: `404 Not Found`."""
    return f"{status}{_PHRASES.get(status, '')}"


class StatusError(ProcessingError):
    """The server answered with an error status. Retryable for 408, 425, 429 and 5xx.

    `retryable` overrides that: with a pool of proxies 403 is retryable, because the site may serve another proxy.
    """

    def __init__(self, url: str, status: int, *, final_url: str = "", retryable: bool | None = None) -> None:
        retry = is_temporary(status) if retryable is None else retryable
        # Name the redirect target: a missing page differs from a redirect to a login page. Another spelling of the
        # same URL is not a redirect worth naming.
        moved = final_url not in ("", url) and canonical_url(final_url) != canonical_url(url)
        redirect = f" led to {mask_url(final_url)}, which" if moved else ""
        super().__init__(f"{mask_url(url)}{redirect} answered {in_words(status)}", retryable=retry)
        self.url = url
        """The requested URL."""
        self.status = status
        self.final_url = final_url or url
        """The URL that answered, after redirects."""

    def __reduce__(self) -> tuple[Callable[[str, int, str, bool], StatusError], tuple[str, int, str, bool]]:
        return _status_error, (self.url, self.status, self.final_url, self.retryable)


def _status_error(url: str, status: int, final_url: str, retryable: bool) -> StatusError:
    return StatusError(url, status, final_url=final_url, retryable=retryable)


class BlockPageError(ProcessingError):
    """The site answered with a block page. Retryable: it may serve a later request, or another proxy."""

    def __init__(self, url: str, why: str, *, status: int = 200) -> None:
        super().__init__(f"{mask_url(url)} answered {in_words(status)} with {why}, which is no page but a refusal")
        self.url = url
        """The requested URL."""
        self.why = why
        """How the block page was recognised."""

    def __reduce__(self) -> tuple[type[BlockPageError], tuple[str, str]]:
        return BlockPageError, (self.url, self.why)


class Response(HtmlPage, msgspec.Struct, frozen=True, kw_only=True):
    """The complete response of a server. If it is an HTML page, `HtmlPage` has its elements, links and forms."""

    url: str
    """The URL that answered, after redirects."""
    status: int = 200
    headers: Mapping[str, str] = {}
    """Names are case-insensitive."""
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as text, decoded as a browser does it; undecodable bytes are replaced.

        The encoding is that of a byte order mark, else the one the server names, else the one the page declares
        (`<meta charset>`, `<?xml encoding>`), else UTF-8. An encoding that browsers do not know counts as UTF-8.
        """
        return decode_page(self.body, self.headers.get("Content-Type", ""))

    def json(self) -> Json:
        """Return the decoded JSON body. Raise `ProcessingError` if it is not JSON."""
        try:
            return msgspec.json.decode(self.body.removeprefix(codecs.BOM_UTF8))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProcessingError(f"{mask_url(self.url)} did not answer with JSON: {error}") from error


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds of the Retry-After header, counted from `now` (seconds since 1970); None without one.

    The header holds seconds or a date. Any other value counts as no header; a date in the past is 0; more than a day is
    a day, after which the server is tried.
    """
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isascii() and value.replace(".", "", 1).isdigit():
        # The standard allows whole seconds only, but some servers send 1.5.
        return min(float(value), _LONGEST_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(value)
        # A date without a zone, such as one in the form of C's asctime, is in GMT like all dates of HTTP.
        instant = (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(instant - (time.time() if now is None else now), 0.0), _LONGEST_RETRY_AFTER)
