"""Transports: send one request over the network and return one response.

A transport follows no redirects, does not retry, and knows nothing of rate limits or robots.txt. It limits time and
size, and translates the errors of its library:

    ConnectionFailedError   the host cannot be reached or closed the connection
    TimedOutError           the host is too slow
    ProcessingError         the response cannot be used
    ValidationError         the request cannot be sent
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import msgspec

from longshore.errors import ConnectionFailedError, ProcessingError, TimedOutError, ValidationError, WorkerError
from longshore.scrape.http.address_policy import AddressPolicy
from longshore.scrape.http.content_encoding import (
    BodyTooLargeError,
    CutError,
    NoDecoderError,
    NotDecodableError,
    accepted,
    unpack,
)
from longshore.scrape.http.cookies import CookieJars
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import mask_url, mask_urls

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDictProxy

DEFAULT_TIMEOUT = timedelta(seconds=30)
DEFAULT_CONNECT_TIMEOUT = timedelta(seconds=10)
DEFAULT_MAX_BYTES = 64 * 1024 * 1024

MOST_SESSIONS = 128
"""Proxies that have their own connections at a time; the least recently used are closed first."""
_ASCII = bytes(range(128))
_LONGEST_HEADER = 256 * 1024
"""Bytes of one header, as in Chrome. The library's default, 8,190, refuses pages that browsers show."""
_UNPACKED_AT_ONCE = 1024 * 1024
"""Bytes. A longer compressed body is unpacked in a thread, because the event loop would stand still."""


class TransferLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one try."""

    total: float = DEFAULT_TIMEOUT.total_seconds()
    """Seconds until the last byte has arrived."""
    connect: float = DEFAULT_CONNECT_TIMEOUT.total_seconds()
    """Seconds until the connection is open, including name lookup and TLS."""
    first_byte: float | None = None
    """Seconds until the response begins; None leaves it to `total`."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """The size of the decompressed body."""


class Transport(Protocol):
    """A sender of requests. It belongs to one event loop and connects at the first request."""

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """Send the request through `proxy` and return the response. `total` seconds replace those of the limits."""

    async def close(self) -> None:
        """Close every connection. Closing twice is harmless; a later request opens new ones."""


def not_a_url(url: str) -> ValidationError:
    """Return the error for an invalid URL."""
    return ValidationError(f"'{mask_url(url)}' is not a URL that can be fetched.")


def too_large(url: str, limits: TransferLimits) -> ProcessingError:
    """Return the error for a body larger than `max_bytes`."""
    return ProcessingError(f"{mask_url(url)} is larger than {limits.max_bytes:,} bytes", retryable=False)


class AiohttpTransport:
    """The default transport. Each run and proxy has its own cookies, so that a site cannot link two proxies."""

    def __init__(self, limits: TransferLimits, user_agent: str, policy: AddressPolicy) -> None:
        self._limits = limits
        self._policy = policy
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": accepted()}
        self._jars = CookieJars()
        self._connectors: list[aiohttp.TCPConnector] = []
        self._to_proxies: aiohttp.TCPConnector | None = None
        self._direct: _ProxySession | None = None
        self._to_own: _ProxySession | None = None
        """For the hosts of jobs, which may be on a private network."""
        self._sessions: OrderedDict[str, _ProxySession] = OrderedDict()
        # Set with the connector: importing the library takes a while.
        self._errors: tuple[type[BaseException], ...] = ()
        self._connect_errors: tuple[type[BaseException], ...] = ()

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """As `Transport.send`."""
        known = None if proxy is not None else self._to_own if request.own else self._direct
        held = known or await self._session_for(proxy, own=request.own)
        held.busy += 1
        first = None
        try:
            if self._limits.first_byte is None:
                return await self._exchange(held, request, total, None)
            async with asyncio.timeout(self._limits.first_byte) as first:
                return await self._exchange(held, request, total, first)
        except self._errors as error:
            raise self._translated(error, request.url, total, first) from error
        finally:
            held.busy -= 1

    async def close(self) -> None:
        """As `Transport.close`."""
        sessions = [*self._sessions.values(), *(each for each in (self._direct, self._to_own) if each is not None)]
        connectors, self._connectors = self._connectors, []
        self._sessions.clear()
        self._jars.clear()
        self._direct = self._to_own = self._to_proxies = None
        for held in sessions:
            await held.session.close()
        for connector in connectors:
            await connector.close()

    async def _exchange(
        self, held: _ProxySession, request: Request, total: float | None, first: asyncio.Timeout | None
    ) -> Response:
        cookies, headers = self._jars.jar(request.jar, held.proxy_url), request.headers
        if cookies:
            headers = cookies.with_cookies(request.url, headers)
        async with held.session.request(
            request.method,
            request.url,
            headers=headers or None,
            data=request.body,
            proxy=held.proxy,
            allow_redirects=False,
            timeout=held.timeout if total is None else self._timeout(total),
        ) as response:
            if first is not None:
                first.reschedule(None)
            if "Set-Cookie" in response.headers:
                cookies.store(request.url, _headers(response).getall("Set-Cookie"))
            body = await self._read(response, request)
            if "Content-Encoding" in response.headers:
                body = await self._unpacked(response, request, body)
            return Response(url=str(response.url), status=response.status, headers=_headers(response), body=body)

    async def _unpacked(self, response: aiohttp.ClientResponse, request: Request, body: bytes) -> bytes:
        headers, url, cut = response.headers, request.url, request.cut_at is not None
        # If the end of the body is that of the connection, only the compression can tell that a part is missing.
        may_be_cut = not cut and "Content-Length" not in headers and "Transfer-Encoding" not in headers
        most = self._limits.max_bytes if request.cut_at is None else request.cut_at
        unpacking = partial(unpack, body, headers["Content-Encoding"], most, may_be_cut=may_be_cut, cut=cut)
        try:
            return unpacking() if len(body) < _UNPACKED_AT_ONCE else await asyncio.to_thread(unpacking)
        except BodyTooLargeError as error:
            raise too_large(url, self._limits) from error
        except CutError as error:
            raise ConnectionFailedError(f"{mask_url(url)} could not be fetched: its body is cut short") from error
        except NoDecoderError as error:
            raise ProcessingError(f"{mask_url(url)} cannot be read: {error}", retryable=False) from error
        except NotDecodableError as error:
            raise ConnectionFailedError(
                f"{mask_url(url)} could not be fetched: it is not decodable: {error}"
            ) from error

    async def _read(self, response: aiohttp.ClientResponse, request: Request) -> bytes:
        most, content = self._limits.max_bytes if request.cut_at is None else request.cut_at, response.content
        chunk = await content.readany()
        if content.at_eof() and len(chunk) <= most:
            return chunk
        chunks, size = [], 0
        # Count the bytes as they arrive: this stops a false Content-Length. `unpack` stops a decompression bomb.
        while chunk:
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                if request.cut_at is None:
                    raise too_large(request.url, self._limits)
                return b"".join(chunks)[:most]
            chunk = await content.readany()
        return b"".join(chunks)

    def _translated(
        self, error: BaseException, url: str, total: float | None, first: asyncio.Timeout | None
    ) -> WorkerError:
        import aiohttp

        shown = mask_url(url)
        if isinstance(error, aiohttp.InvalidURL):
            return not_a_url(url)
        if isinstance(error, self._connect_errors):
            return ConnectionFailedError(f"{shown}: no connection within {self._limits.connect:g} seconds")
        if isinstance(error, TimeoutError):
            if first is not None and first.expired():
                return TimedOutError(f"{shown} did not begin to answer within {self._limits.first_byte:g} seconds")
            within = self._limits.total if total is None else total
            return TimedOutError(f"{shown} did not answer within {within:g} seconds")
        what = mask_urls(str(error)) or type(error).__name__
        # Errors of certificates are both: the request is valid, and the site may have a valid certificate soon.
        if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError | OSError):
            return ValidationError(f"{shown} cannot be requested: {what}")
        return ConnectionFailedError(f"{shown} could not be fetched: {what}")

    async def _session_for(self, proxy: Proxy | None, *, own: bool) -> _ProxySession:
        from longshore.scrape.http.connections import FewKept, most_kept

        if not self._errors:
            import aiohttp

            self._errors = (aiohttp.ClientError, OSError, ValueError)
            self._connect_errors = (aiohttp.ConnectionTimeoutError,)
        if proxy is None:
            return self._new_direct_session(own=own)
        if self._to_proxies is None:
            self._to_proxies = FewKept(most_kept(), limit=0, ttl_dns_cache=300)
            self._connectors.append(self._to_proxies)
        if len(self._sessions) >= MOST_SESSIONS and proxy.url not in self._sessions:
            await self._close_oldest()
        known = self._sessions.get(proxy.url)
        if known is None:
            known = self._sessions[proxy.url] = self._new_session(proxy, self._to_proxies)
        self._sessions.move_to_end(proxy.url)
        return known

    def _new_direct_session(self, *, own: bool) -> _ProxySession:
        from longshore.scrape.http.connections import JudgedConnector, most_kept

        # No limit here: the caller limits how many connections are in use.
        connector = JudgedConnector(most_kept(), self._policy, own=own, limit=0, ttl_dns_cache=300)
        self._connectors.append(connector)
        made = _ProxySession(self._session(connector, owned=False), None, self._timeout())
        if own:
            self._to_own = made
        else:
            self._direct = made
        return made

    def _new_session(self, proxy: Proxy, shared: aiohttp.TCPConnector) -> _ProxySession:
        import aiohttp
        import aiohttp_socks

        from longshore.scrape.http.connections import report_broken_bodies
        from longshore.scrape.proxies.connection import SOCKS_ERRORS, connector_for, request_proxy, speaks_socks

        self._errors = (aiohttp.ClientError, OSError, ValueError, *SOCKS_ERRORS)
        self._connect_errors = (aiohttp.ConnectionTimeoutError, aiohttp_socks.ProxyTimeoutError)
        own = speaks_socks(proxy)
        connector = connector_for(proxy, limit=0) if own else shared
        report_broken_bodies(connector)
        return _ProxySession(self._session(connector, owned=own), request_proxy(proxy), self._timeout(), proxy.url)

    async def _close_oldest(self) -> None:
        for url, held in self._sessions.items():
            if not held.busy:
                del self._sessions[url]
                await held.session.close()
                return

    def _session(self, connector: aiohttp.TCPConnector, *, owned: bool) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=owned,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),  # `CookieJar` has them
            # The library knows neither x-gzip nor a body that was packed twice; `unpack` does.
            auto_decompress=False,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )

    def _timeout(self, total: float | None = None) -> aiohttp.ClientTimeout:
        import aiohttp

        connect = self._limits.connect
        # Not `sock_read`: it sets a timer for every chunk, which costs a fifth of a fetch.
        return aiohttp.ClientTimeout(
            total=self._limits.total if total is None else total, connect=connect, sock_connect=connect
        )


def _headers(response: aiohttp.ClientResponse) -> CIMultiDictProxy[str]:
    for _, value in response.raw_headers:
        if not value.isascii():
            return text_headers(response.raw_headers)
    return response.headers


def text_headers(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDictProxy[str]:
    """Return headers as valid text, which can be stored: a value that is not UTF-8 is decoded as Latin-1."""
    from multidict import CIMultiDict, CIMultiDictProxy

    return CIMultiDictProxy(CIMultiDict((name.decode("latin-1"), _decoded(name, value)) for name, value in raw))


def _decoded(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # The target of a redirect must keep its exact bytes.
        return quote(value, safe=_ASCII) if name.lower() == b"location" else value.decode("latin-1")


class _ProxySession:
    """The session with the connections of one proxy, or of none."""

    __slots__ = ("busy", "proxy", "proxy_url", "session", "timeout")

    def __init__(
        self, session: aiohttp.ClientSession, proxy: str | None, timeout: aiohttp.ClientTimeout, proxy_url: str = ""
    ) -> None:
        self.session = session
        self.proxy = proxy
        """For each request; None if the connector has it."""
        self.proxy_url = proxy_url
        """Empty without a proxy."""
        self.timeout = timeout
        self.busy = 0
