"""The transport that looks like a browser down to its TLS: curl-impersonate, by curl_cffi."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from longshore.errors import ConnectionFailedError, SettingsError, TimedOutError, WorkerError
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response
from longshore.scrape.http.transport import (
    COOKIES_COUNTED_EVERY,
    MOST_COOKIES,
    MOST_LANES,
    TransferLimits,
    not_a_url,
    too_large,
)
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import mask_url, mask_urls

if TYPE_CHECKING:
    from curl_cffi import AsyncCurl, CurlError
    from curl_cffi.requests import AsyncSession

BROWSER = "chrome"
"""Whom it looks like: the newest of these that curl_cffi knows."""
_AT_ONCE = 1000
# What libcurl calls them.
_BAD_URL = 3
_PROXY_UNREACHED = frozenset({5, 7, 97})
_LATE = 28


class CurlTransport:
    """Sends what a browser sends, its user agent included. Cookies are kept apart for each proxy."""

    def __init__(self, bounds: TransferLimits) -> None:
        """`SettingsError` where curl_cffi is not installed."""
        try:
            import curl_cffi  # noqa: F401
        except ImportError as error:
            raise SettingsError(
                "The curl transport needs curl_cffi, which is not installed. "
                "Fix: pip install '.[fingerprint]' where Longshore was cloned, or use the aiohttp transport."
            ) from error
        self._bounds = bounds
        self._curl: AsyncCurl | None = None
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """As `Transport.send`."""
        from curl_cffi import CurlError
        from multidict import CIMultiDict, CIMultiDictProxy

        within = self._bounds.total if total is None else total
        lane = await self._lane(proxy)
        lane.enter()
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        begin = end if self._bounds.first_byte is None else end - within + self._bounds.first_byte
        body = _Body(request.url, self._bounds)
        try:
            # curl keeps deadlines of its own, but is not trusted with them: one that hangs must not hang us.
            async with asyncio.timeout_at(min(begin, end)) as deadline:
                body.begins = lambda: deadline.reschedule(end)
                answer = await self._perform(lane, request, proxy, within, body)
        except TimeoutError as error:
            if begin < end and not body.chunks:
                message = f"{mask_url(request.url)} did not begin to answer within {self._bounds.first_byte:g} seconds"
                raise TimedOutError(message) from error
            raise _late(request.url, within) from error
        except CurlError as error:
            unreached = error.code == _LATE and loop.time() < end
            raise self._translated(error, request.url, within, unreached=unreached) from _cause(error, proxy, unreached)
        finally:
            lane.busy -= 1
        headers = CIMultiDictProxy(CIMultiDict(answer.headers.multi_items()))
        whole = b"".join(body.chunks)
        return Response(url=str(answer.url), status=answer.status_code, headers=headers, body=whole)

    async def close(self) -> None:
        """As `Transport.close`."""
        lanes, curl = list(self._lanes.values()), self._curl
        self._lanes.clear()
        self._curl = None
        for lane in lanes:
            await lane.session.close()
        if curl is not None:
            await curl.close()  # type: ignore[no-untyped-call]

    async def _perform(self, lane: _Lane, request: Request, proxy: Proxy | None, within: float, body: _Body) -> Any:
        method: Any = request.method
        return await lane.session.request(
            method,
            request.url,
            headers=dict(request.headers) or None,
            data=request.body,
            proxy=None if proxy is None else _as_curl_says(proxy),
            allow_redirects=False,
            timeout=(self._bounds.connect, within),
            # Not as a stream: one that is given up would be read to its end.
            content_callback=body.take,
        )

    async def _lane(self, proxy: Proxy | None) -> _Lane:
        name = "" if proxy is None else proxy.url
        if len(self._lanes) >= MOST_LANES and name not in self._lanes:
            await self._let_one_go()
        if self._curl is None:
            from curl_cffi import AsyncCurl

            self._curl = AsyncCurl()
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(self._curl, proxied=proxy is not None)
        self._lanes.move_to_end(name)
        return lane

    async def _let_one_go(self) -> None:
        for name, lane in self._lanes.items():
            if not lane.busy:
                del self._lanes[name]
                await lane.session.close()
                return

    def _translated(self, error: CurlError, url: str, within: float, *, unreached: bool) -> WorkerError:
        shown = mask_url(url)
        if error.code == _BAD_URL:
            return not_a_url(url)
        if unreached:
            return ConnectionFailedError(f"{shown}: no connection within {self._bounds.connect:g} seconds")
        if error.code == _LATE:
            return _late(url, within)
        return ConnectionFailedError(f"{shown} could not be fetched: {mask_urls(str(error))}")


class _Lane:
    """The cookies of one proxy, or of none. The connections are curl's, which keeps them apart, too."""

    __slots__ = ("busy", "session", "uses")

    def __init__(self, curl: AsyncCurl, *, proxied: bool) -> None:
        from curl_cffi import CurlOpt
        from curl_cffi.requests import AsyncSession

        # Or curl would pass over the proxy, and show our own address, wherever NO_PROXY in the environment says so.
        always = {CurlOpt.NOPROXY: ""} if proxied else {}
        self.session: AsyncSession[Any] = AsyncSession(
            impersonate=BROWSER, max_clients=_AT_ONCE, trust_env=False, async_curl=curl, curl_options=always
        )
        self.busy = 0
        self.uses = 0

    def enter(self) -> None:
        """One more request is under way."""
        self.busy += 1
        self.uses += 1
        if self.uses % COOKIES_COUNTED_EVERY == 0 and len(self.session.cookies.jar) > MOST_COOKIES:
            self.session.cookies.clear()


class _Body:
    """What has come of the answer."""

    def __init__(self, url: str, bounds: TransferLimits) -> None:
        self._url = url
        self._bounds = bounds
        self._size = 0
        self.chunks: list[bytes] = []
        self.begins: Callable[[], None] = lambda: None

    def take(self, chunk: bytes) -> int:
        """Called by curl with every piece, to be told how much of it was taken; what it raises ends the transfer."""
        if not self.chunks:
            self.begins()
        self.chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._bounds.max_bytes:
            raise too_large(self._url, self._bounds)
        return len(chunk)


def _as_curl_says(proxy: Proxy) -> str:
    """The URL of a proxy, so that a SOCKS5 proxy resolves the names of sites: curl's socks5 would do it here."""
    scheme, _, rest = proxy.url.partition("://")
    return f"socks5h://{rest}" if scheme.lower() == "socks5" else proxy.url


def _late(url: str, within: float) -> TimedOutError:
    return TimedOutError(f"{mask_url(url)} did not answer within {within:g} seconds")


def _cause(error: CurlError, proxy: Proxy | None, unreached: bool) -> BaseException:
    """The error in the words of those who ask whose fault it was; they know nothing of curl."""
    if proxy is None:
        return error
    from aiohttp_socks import ProxyConnectionError, ProxyTimeoutError

    what = mask_urls(str(error))
    if unreached:
        return ProxyTimeoutError(what)
    if error.code == _LATE:
        return TimeoutError(what)
    if error.code in _PROXY_UNREACHED or "response 407" in what:
        return ProxyConnectionError(what)
    return ConnectionResetError(what)
