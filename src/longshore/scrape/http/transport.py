"""How a request goes over the network and its answer comes back: one of each, no more.

A transport follows no redirects, tries once, and knows nothing of pace or robots. It bounds time and size, and turns
what its library raises into errors of ours:

    ConnectionFailedError   nobody there, or hung up
    TimedOutError           there, and too slow
    ProcessingError         what came is of no use
    ValidationError         it cannot be asked for
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import msgspec

from longshore.errors import ConnectionFailedError, ProcessingError, TimedOutError, ValidationError, WorkerError
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import mask_url, mask_urls

if TYPE_CHECKING:
    import aiohttp

DEFAULT_TIMEOUT = timedelta(seconds=30)
DEFAULT_CONNECT_TIMEOUT = timedelta(seconds=10)
DEFAULT_MAX_BYTES = 64 * 1024 * 1024

MOST_LANES = 128
"""So many proxies have connections of their own at a time; those used longest ago are let go first."""
MOST_COOKIES = 10_000
"""Of one proxy; beyond, all are forgotten."""
COOKIES_COUNTED_EVERY = 1024
"""So many requests."""
_ASCII = bytes(range(128))


class TransferLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a try may take, and how large an answer may be."""

    total: float = DEFAULT_TIMEOUT.total_seconds()
    """Seconds until the last byte has come."""
    connect: float = DEFAULT_CONNECT_TIMEOUT.total_seconds()
    """Seconds until there is a connection, names looked up and TLS agreed."""
    first_byte: float | None = None
    """Seconds until an answer begins; None leaves it to `total`."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """Of the body, decompressed."""


class Transport(Protocol):
    """Sends requests. Belongs to one event loop; opens its connections at the first request."""

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """The answer to this request, by way of this proxy. `total`, where given, replaces that of the bounds."""

    async def close(self) -> None:
        """Let go of every connection. Closing twice is harmless; a later request opens new ones."""


def not_a_url(url: str) -> ValidationError:
    """The error for what cannot be fetched."""
    return ValidationError(f"'{mask_url(url)}' is not a URL that can be fetched.")


def too_large(url: str, bounds: TransferLimits) -> ProcessingError:
    """The error for an answer beyond the bounds."""
    return ProcessingError(f"{mask_url(url)} is larger than {bounds.max_bytes:,} bytes", retryable=False)


class AiohttpTransport:
    """The usual one. Cookies are kept apart for each proxy, so that no site learns that two are one visitor."""

    def __init__(self, bounds: TransferLimits, user_agent: str) -> None:
        self._bounds = bounds
        self._headers = {"User-Agent": user_agent}
        self._connector: aiohttp.TCPConnector | None = None
        self._bare: _Lane | None = None
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        # Known when there is a connector: to import the library for it takes a while.
        self._trouble: tuple[type[BaseException], ...] = ()
        self._unreached: tuple[type[BaseException], ...] = ()

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """As `Transport.send`."""
        lane = self._bare if proxy is None and self._bare is not None else await self._lane(proxy)
        lane.enter()
        first = None
        try:
            if self._bounds.first_byte is None:
                return await self._exchange(lane, request, total, None)
            async with asyncio.timeout(self._bounds.first_byte) as first:
                return await self._exchange(lane, request, total, first)
        except self._trouble as error:
            raise self._translated(error, request.url, total, first) from error
        finally:
            lane.busy -= 1

    async def close(self) -> None:
        """As `Transport.close`."""
        lanes = [*self._lanes.values(), *([self._bare] if self._bare is not None else [])]
        connector, self._connector = self._connector, None
        self._lanes.clear()
        self._bare = None
        for lane in lanes:
            await lane.session.close()
        if connector is not None:
            await connector.close()

    async def _exchange(
        self, lane: _Lane, request: Request, total: float | None, first: asyncio.Timeout | None
    ) -> Response:
        async with lane.session.request(
            request.method,
            request.url,
            headers=request.headers or None,
            data=request.body,
            proxy=lane.proxy,
            allow_redirects=False,
            timeout=lane.timeout if total is None else self._timeout(total),
        ) as answer:
            if first is not None:
                first.reschedule(None)
            body = await self._read(answer, request.url)
            return Response(url=str(answer.url), status=answer.status, headers=_headers(answer), body=body)

    async def _read(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        most, content = self._bounds.max_bytes, answer.content
        chunk = await content.readany()
        if content.at_eof() and len(chunk) <= most:
            return chunk
        chunks, size = [], 0
        # Counted as it arrives, after decompression: neither a false Content-Length nor a bomb gets past.
        while chunk:
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise too_large(url, self._bounds)
            chunk = await content.readany()
        return b"".join(chunks)

    def _translated(
        self, error: BaseException, url: str, total: float | None, first: asyncio.Timeout | None
    ) -> WorkerError:
        import aiohttp

        shown = mask_url(url)
        if isinstance(error, aiohttp.InvalidURL):
            return not_a_url(url)
        if isinstance(error, self._unreached):
            return ConnectionFailedError(f"{shown}: no connection within {self._bounds.connect:g} seconds")
        if isinstance(error, TimeoutError):
            if first is not None and first.expired():
                return TimedOutError(f"{shown} did not begin to answer within {self._bounds.first_byte:g} seconds")
            within = self._bounds.total if total is None else total
            return TimedOutError(f"{shown} did not answer within {within:g} seconds")
        what = mask_urls(str(error)) or type(error).__name__
        if isinstance(error, ValueError):
            return ValidationError(f"{shown} cannot be asked for: {what}")
        return ConnectionFailedError(f"{shown} could not be fetched: {what}")

    async def _lane(self, proxy: Proxy | None) -> _Lane:
        if self._connector is None:
            import aiohttp

            from longshore.scrape.http.connections import FewKept, most_kept

            # Whoever fetches bounds how many connections are in use.
            self._connector = FewKept(most_kept(), limit=0, ttl_dns_cache=300)
            self._trouble = (aiohttp.ClientError, OSError, ValueError)
            self._unreached = (aiohttp.ConnectionTimeoutError,)
        if proxy is None:
            self._bare = _Lane(self._session(self._connector, owned=False), None, self._timeout())
            return self._bare
        if len(self._lanes) >= MOST_LANES and proxy.url not in self._lanes:
            await self._let_one_go()
        known = self._lanes.get(proxy.url)
        if known is None:
            known = self._lanes[proxy.url] = self._new_lane(proxy, self._connector)
        self._lanes.move_to_end(proxy.url)
        return known

    def _new_lane(self, proxy: Proxy, shared: aiohttp.TCPConnector) -> _Lane:
        import aiohttp
        import aiohttp_socks

        from longshore.scrape.proxies.connection import SOCKS_ERRORS, connector_for, request_proxy, speaks_socks

        self._trouble = (aiohttp.ClientError, OSError, ValueError, *SOCKS_ERRORS)
        self._unreached = (aiohttp.ConnectionTimeoutError, aiohttp_socks.ProxyTimeoutError)
        own = speaks_socks(proxy)
        connector = connector_for(proxy, limit=0) if own else shared
        return _Lane(self._session(connector, owned=own), request_proxy(proxy), self._timeout())

    async def _let_one_go(self) -> None:
        for url, lane in self._lanes.items():
            if not lane.busy:
                del self._lanes[url]
                await lane.session.close()
                return

    def _session(self, connector: aiohttp.TCPConnector, *, owned: bool) -> aiohttp.ClientSession:
        import aiohttp

        # "Unsafe" is what the library calls cookies of sites without a name (192.0.2.7). Browsers keep them.
        jar = aiohttp.CookieJar(unsafe=True)
        return aiohttp.ClientSession(connector=connector, connector_owner=owned, headers=self._headers, cookie_jar=jar)

    def _timeout(self, total: float | None = None) -> aiohttp.ClientTimeout:
        import aiohttp

        connect = self._bounds.connect
        # Its own deadline for reading sets a timer for every piece that comes, which costs a fifth of a fetch.
        return aiohttp.ClientTimeout(
            total=self._bounds.total if total is None else total, connect=connect, sock_connect=connect
        )


def _headers(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    """The headers as whole text. What is no UTF-8 is Latin-1, as it was for long: half characters nobody can store."""
    if all(value.isascii() for _, value in answer.raw_headers):
        return answer.headers
    from multidict import CIMultiDict, CIMultiDictProxy

    return CIMultiDictProxy(
        CIMultiDict((name.decode("latin-1"), _whole(name, value)) for name, value in answer.raw_headers)
    )


def _whole(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # Where it leads is a matter of bytes, not of letters.
        return quote(value, safe=_ASCII) if name.lower() == b"location" else value.decode("latin-1")


class _Lane:
    """The connections and cookies of one proxy, or of none."""

    __slots__ = ("busy", "proxy", "session", "timeout", "uses")

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None, timeout: aiohttp.ClientTimeout) -> None:
        self.session = session
        self.proxy = proxy
        self.timeout = timeout
        self.busy = 0
        self.uses = 0

    def enter(self) -> None:
        """One more request is under way."""
        self.busy += 1
        self.uses += 1
        # A crawl of a million hosts must not remember the cookies of each.
        if self.uses % COOKIES_COUNTED_EVERY == 0 and len(self.session.cookie_jar) > MOST_COOKIES:
            self.session.cookie_jar.clear()
