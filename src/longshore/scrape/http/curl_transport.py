"""The transport that imitates a browser, including its TLS fingerprint: curl-impersonate, through curl_cffi."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, ItemsView
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from longshore.errors import ConnectionFailedError, SettingsError, TimedOutError, WorkerError
from longshore.scrape.http.address_policy import AddressPolicy, literal_address
from longshore.scrape.http.cookies import CookieJar, CookieJars
from longshore.scrape.http.request import Request
from longshore.scrape.http.resolver import Resolver
from longshore.scrape.http.response import Response
from longshore.scrape.http.transport import (
    MOST_SESSIONS,
    TransferLimits,
    not_a_url,
    text_headers,
    too_large,
)
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import ascii_host, host_of, mask_url, mask_urls

if TYPE_CHECKING:
    from curl_cffi import AsyncCurl, CurlError, CurlOpt
    from curl_cffi.requests import AsyncSession

BROWSER = "chrome"
"""The imitated browser: the newest version of it that curl_cffi knows."""
_AT_ONCE = 1000
# Error codes of libcurl.
_BAD_URL = 3
_PROXY_UNREACHED = frozenset({5, 7, 97})
_LATE = 28
_DEFAULT_PORTS = {"http": 80, "https": 443}

_pinned: ContextVar[list[str]] = ContextVar("longshore_pinned", default=[])  # noqa: B039  never changed in place
"""The addresses for the request of this task, in the form of libcurl: `name:port:address,address`."""


class CurlTransport:
    """A transport that sends what a browser sends, user agent included. Each run and proxy has its own cookies."""

    def __init__(self, limits: TransferLimits, policy: AddressPolicy) -> None:
        """Raise `SettingsError` if curl_cffi is not installed."""
        try:
            import curl_cffi  # noqa: F401
        except ImportError as error:
            raise SettingsError(
                "The curl transport needs curl_cffi, which is not installed. "
                "Fix: pip install '.[fingerprint]' where Longshore was cloned, or use the aiohttp transport."
            ) from error
        self._limits = limits
        self._policy = policy
        self._resolver = Resolver()
        self._jars = CookieJars()
        self._curl: AsyncCurl | None = None
        self._sessions: OrderedDict[str, _CurlSession] = OrderedDict()

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        """As `Transport.send`."""
        from curl_cffi import CurlError

        within = self._limits.total if total is None else total
        session = await self._session_for(proxy)
        cookies = self._jars.jar(request.jar, "" if proxy is None else proxy.url)
        session.busy += 1
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        begin = end if self._limits.first_byte is None else end - within + self._limits.first_byte
        body = _Body(request, self._limits)
        try:
            # Do not rely on curl's own deadlines: a curl that hangs must not hang us.
            async with asyncio.timeout_at(min(begin, end)) as deadline:
                body.on_first_chunk = lambda: deadline.reschedule(end)
                url = request.url if proxy is not None else await self._pin(request)
                response = await self._perform(session, request, url, proxy, within, body, cookies)
        except TimeoutError as error:
            if begin < end and not body.chunks:
                message = f"{mask_url(request.url)} did not begin to answer within {self._limits.first_byte:g} seconds"
                raise TimedOutError(message) from error
            raise _late(request.url, within) from error
        except CurlError as error:
            response = getattr(error, "response", None)
            if not body.is_cut or response is None:
                unreached = error.code == _LATE and loop.time() < end
                cause = _cause(error, proxy, unreached)
                raise self._translated(error, request.url, within, unreached=unreached) from cause
        finally:
            session.busy -= 1
        if proxy is None and response.primary_ip:
            # The pin makes curl connect to the judged address; if it ever does not, its answer is not used.
            self._policy.permitted(host_of(request.url), [response.primary_ip], own=request.own)
        headers = text_headers(response.headers.raw)
        if "Set-Cookie" in headers:
            cookies.store(request.url, headers.getall("Set-Cookie"))
        whole = b"".join(body.chunks)
        return Response(url=str(response.url), status=response.status_code, headers=headers, body=whole)

    async def close(self) -> None:
        """As `Transport.close`."""
        sessions, curl = list(self._sessions.values()), self._curl
        self._sessions.clear()
        self._jars.clear()
        self._curl = None
        for session in sessions:
            await session.session.close()
        if curl is not None:
            await curl.close()  # type: ignore[no-untyped-call]

    async def _pin(self, request: Request) -> str:
        """Resolve and judge the host of a request, make curl connect to the found addresses, and return the URL.

        Raise `PrivateAddressError`. Every request is judged, because curl uses connections again.
        """
        try:
            parts = urlsplit(request.url)
            name, port = ascii_host(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
        except ValueError as error:
            raise not_a_url(request.url) from error
        if not name or not name.isascii() or "\\" in parts.netloc:
            raise not_a_url(request.url)
        literal = literal_address(name)
        try:
            found = [str(literal)] if literal is not None else await self._resolver.addresses(name)
        except OSError as error:
            shown = mask_url(request.url)
            raise ConnectionFailedError(f"{shown} could not be fetched: {error.strerror or error}") from error
        permitted = self._policy.permitted(host_of(request.url), found, own=request.own)
        addresses = ",".join(f"[{each}]" if ":" in each else each for each in permitted)
        _pinned.set([f"{name}:{port}:{addresses}"] if literal is None else [])
        if parts.netloc.isascii():
            return request.url
        # In the form that was resolved: curl has rules of its own for international names.
        user, at, _ = parts.netloc.rpartition("@")
        host = name if parts.port is None else f"{name}:{parts.port}"
        return urlunsplit(parts._replace(netloc=f"{user}{at}{host}"))

    async def _perform(
        self,
        session: _CurlSession,
        request: Request,
        url: str,
        proxy: Proxy | None,
        within: float,
        body: _Body,
        cookies: CookieJar,
    ) -> Any:
        from curl_cffi.requests import Headers

        method: Any = request.method
        return await session.session.request(
            method,
            url,
            # With an encoding: by itself the library fails for some headers that are not ASCII.
            headers=Headers(dict(cookies.with_cookies(request.url, request.headers)), encoding="utf-8"),
            data=request.body,
            proxy=None if proxy is None else _curl_url(proxy),
            allow_redirects=False,
            timeout=(self._limits.connect, within),
            # Not as a stream: curl would read an abandoned stream to its end.
            content_callback=body.take,
        )

    async def _session_for(self, proxy: Proxy | None) -> _CurlSession:
        name = "" if proxy is None else proxy.url
        if len(self._sessions) >= MOST_SESSIONS and name not in self._sessions:
            await self._close_oldest()
        if self._curl is None:
            from curl_cffi import AsyncCurl

            self._curl = AsyncCurl()
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _CurlSession(self._curl, proxied=proxy is not None)
        self._sessions.move_to_end(name)
        return session

    async def _close_oldest(self) -> None:
        for name, session in self._sessions.items():
            if not session.busy:
                del self._sessions[name]
                await session.session.close()
                return

    def _translated(self, error: CurlError, url: str, within: float, *, unreached: bool) -> WorkerError:
        shown = mask_url(url)
        if error.code == _BAD_URL:
            return not_a_url(url)
        if unreached:
            return ConnectionFailedError(f"{shown}: no connection within {self._limits.connect:g} seconds")
        if error.code == _LATE:
            return _late(url, within)
        return ConnectionFailedError(f"{shown} could not be fetched: {mask_urls(str(error))}")


class _CurlSession:
    """The session of one proxy, or of none. curl keeps their connections apart as well."""

    __slots__ = ("busy", "session")

    def __init__(self, curl: AsyncCurl, *, proxied: bool) -> None:
        from curl_cffi import CurlOpt
        from curl_cffi.requests import AsyncSession

        # Otherwise curl bypasses the proxy for hosts in the environment's NO_PROXY, and shows them our own address.
        always = {CurlOpt.NOPROXY: ""} if proxied else _PinnedOptions({CurlOpt.NOPROXY: "*"})
        self.session: AsyncSession[Any] = AsyncSession(
            impersonate=BROWSER,
            max_clients=_AT_ONCE,
            trust_env=False,
            async_curl=curl,
            curl_options=always,
            discard_cookies=True,  # `CookieJars` has them
        )
        self.busy = 0


class _PinnedOptions(dict["CurlOpt", Any]):
    """The options of every request, and the addresses that the task of this request has pinned.

    curl_cffi takes options for a session, and requests of many tasks share a session.
    """

    def items(self) -> ItemsView[CurlOpt, Any]:  # type: ignore[override]
        from curl_cffi import CurlOpt

        pinned = _pinned.get()
        return ({**self, CurlOpt.RESOLVE: pinned} if pinned else dict(self)).items()


class _Body:
    """The received part of the body."""

    def __init__(self, request: Request, limits: TransferLimits) -> None:
        self._request = request
        self._limits = limits
        self._size = 0
        self.chunks: list[bytes] = []
        self.is_cut = False
        """Whether we ended the transfer, because the request asks only for the beginning."""
        self.on_first_chunk: Callable[[], None] = lambda: None

    def take(self, chunk: bytes) -> int:
        """Store a chunk from curl and return its size. An error raised here, or another number, ends the transfer."""
        if not self.chunks:
            self.on_first_chunk()
        self.chunks.append(chunk)
        self._size += len(chunk)
        from curl_cffi.curl import CURL_WRITEFUNC_ERROR

        cut_at = self._request.cut_at
        if cut_at is not None and self._size > cut_at:
            self.is_cut = True
            self.chunks = [b"".join(self.chunks)[:cut_at]]
            return CURL_WRITEFUNC_ERROR
        if cut_at is None and self._size > self._limits.max_bytes:
            raise too_large(self._request.url, self._limits)
        return len(chunk)


def _curl_url(proxy: Proxy) -> str:
    """Return the URL of a proxy for curl. `socks5` becomes `socks5h`, so that the proxy resolves host names."""
    scheme, _, rest = proxy.url.partition("://")
    return f"socks5h://{rest}" if scheme.lower() == "socks5" else proxy.url


def _late(url: str, within: float) -> TimedOutError:
    return TimedOutError(f"{mask_url(url)} did not answer within {within:g} seconds")


def _cause(error: CurlError, proxy: Proxy | None, unreached: bool) -> BaseException:
    """Return the error as a type that `blame_of` knows; it does not know those of curl."""
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
