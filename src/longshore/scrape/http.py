"""Fetching over HTTP: one pooled session, bounded in time and size, with errors that say whether to try again."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from email.message import Message
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from longshore.errors import ConnectionFailedError, ProcessingError, TimedOutError, ValidationError
from longshore.loop_thread import LoopThread
from longshore.url import mask_url, mask_urls

if TYPE_CHECKING:
    import aiohttp

DEFAULT_TIMEOUT = timedelta(seconds=30)
"""From the first byte sent to the last received, redirects included."""
DEFAULT_MAX_BYTES = 64 * 1024 * 1024
USER_AGENT = "longshore"

_PASSING = frozenset({408, 425, 429})


class StatusError(ProcessingError):
    """The server answered with an error. Worth another try for 408, 425, 429 and 5xx, and for no other."""

    def __init__(self, url: str, status: int) -> None:
        names = {known.value: f" {known.phrase}" for known in HTTPStatus}
        super().__init__(
            f"{mask_url(url)} answered {status}{names.get(status, '')}",
            retryable=status in _PASSING or status >= 500,
        )
        self.url = url
        self.status = status

    def __reduce__(self) -> tuple[type[StatusError], tuple[str, int]]:
        return StatusError, (self.url, self.status)


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
        except LookupError:
            return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body read as JSON. Raises `ProcessingError` where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProcessingError(f"{mask_url(self.url)} did not answer with JSON: {error}") from error


class Http:
    """Fetches pages for async handlers. Opens its session at the first fetch; `close` lets go of it."""

    def __init__(self, *, timeout: timedelta = DEFAULT_TIMEOUT, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None, check: bool = True) -> Response:
        """Fetch a URL, following redirects.

        Raises `StatusError` for an answer of 400 and above, unless `check` is off; `ConnectionFailedError` and
        `TimedOutError` for trouble on the way; `ProcessingError` for a body that is too large or redirects without
        end; `ValidationError` for what is no URL.
        """
        response = await self.fetch(url, headers or {})
        if check and response.status >= 400:
            raise StatusError(url, response.status)
        return response

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Response:
        """Fetch without judging the status. What stands in for the network in tests overrides this."""
        import aiohttp

        shown = mask_url(url)
        try:
            async with self._open().get(url, headers=headers) as answer:
                body = await self._read(answer, shown)
                return Response(url=str(answer.url), status=answer.status, headers=answer.headers, body=body)
        except aiohttp.RedirectClientError:
            # Like the next one, its text is a bare URL, password included.
            raise ProcessingError(f"{shown} redirects to what is not a URL", retryable=False) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise ValidationError(f"'{shown}' is not a URL that can be fetched.") from None
        except aiohttp.TooManyRedirects as error:
            raise ProcessingError(f"{shown} redirects without end", retryable=False) from error
        except TimeoutError as error:
            seconds = self._timeout.total_seconds()
            raise TimedOutError(f"{shown} did not answer within {seconds:g} seconds") from error
        except (aiohttp.ClientError, OSError) as error:
            what = mask_urls(str(error)) or type(error).__name__
            raise ConnectionFailedError(f"{shown} could not be fetched: {what}") from error

    async def close(self) -> None:
        """Close the connections. Closing twice is harmless; a later fetch opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout.total_seconds()),
                headers={"User-Agent": USER_AGENT},
            )
        return self._session

    async def _read(self, answer: aiohttp.ClientResponse, shown: str) -> bytes:
        body = bytearray()
        # Counted as it arrives, after decompression: neither a false Content-Length nor a bomb gets past.
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > self._max_bytes:
                raise ProcessingError(f"{shown} is larger than {self._max_bytes:,} bytes", retryable=False)
        return bytes(body)


class SyncHttp:
    """The same for plain handlers: `kit.http.get(url)` without await, from any thread."""

    def __init__(self, http: Http | None = None) -> None:
        self._http = http or Http()
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()

    def get(self, url: str, *, headers: Mapping[str, str] | None = None, check: bool = True) -> Response:
        """As `Http.get`."""
        with self._starting:
            if self._thread is None:
                self._thread = LoopThread("longshore-http")
        return self._thread.call(self._http.get(url, headers=headers, check=check))

    def close(self) -> None:
        """As `Http.close`."""
        if self._thread is not None:
            self._thread.call(self._http.close())
            self._thread.close()
            self._thread = None
