"""One fetch, from asking to the answer: cache, robots, proxy, pace, redirects, and another try where it may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from longshore.clock import Clock
from longshore.errors import ConnectionFailedError, ProcessingError, SnoozeError, TimedOutError
from longshore.pacing.contract import HostClosedError, Limiter
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response, in_words, passes, retry_after
from longshore.scrape.http.robots import Robots, RobotsError
from longshore.scrape.http.transport import Transport, not_a_url
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import host_of, mask_url

if TYPE_CHECKING:
    from longshore.scrape.http.page_cache import CachedPage, PageCache
    from longshore.scrape.proxies import ProxySource

MOST_REDIRECTS = 10
_FIRST_WAIT = 0.5
_LEAST = 0.001
# A proxy that is turned away says nothing about the next one.
_ANOTHER_PROXY_MAY = frozenset({403, 407})
_PROXIES_AGAIN = 60.0
"""Seconds after which a job comes back whose proxies could not be reached, and do not rest yet."""
_SITES_REMEMBERED = 10_000

Watch = Callable[[Exchange], None]


class HttpContext(msgspec.Struct, frozen=True, kw_only=True):
    """What all fetches go by."""

    transport: Transport
    headers: Mapping[str, str]
    """Those that the transport adds to every request, as far as they are known."""
    pace: Limiter
    patience: float
    """Seconds a fetch may wait for its turn, be it the host's or a proxy's."""
    total: float
    """Seconds a try may take."""
    retries: int
    clock: Clock
    robots: Robots
    proxies: ProxySource | None = None
    cache: PageCache | None = None
    hosts: dict[str, str] = {}
    """The host of each site: of the beginning of a URL, up to the path."""

    def host(self, url: str, site: str) -> str:
        """The host that a URL is counted by. `ValidationError` where it can have none."""
        host = host_of(url)
        if not host or not url[:8].lower().startswith(("http://", "https://")):
            raise not_a_url(url)
        if len(self.hosts) >= _SITES_REMEMBERED:
            self.hosts.clear()
        self.hosts[site] = host
        return host


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one fetch goes by."""

    robots: bool = True
    watch: Watch | None = None
    ends_at: float | None = None
    """When the attempt must be over (`time.monotonic`)."""
    total: float | None = None
    proxy: Proxy | None = None
    session: str = ""
    check: bool = True


class Fetch:
    """One fetch under way."""

    __slots__ = ("_call", "_identity", "_page", "_spent", "_tried_enough", "_ways")

    def __init__(self, ways: HttpContext, call: FetchOptions) -> None:
        self._ways = ways
        self._call = call
        self._identity = ""
        self._page: CachedPage | None = None
        self._spent = 0.0
        self._tried_enough = False

    async def run(self, request: Request) -> Response:
        """The answer, whatever its status."""
        if self._ways.cache is not None and request.method == "GET":
            return await self._by_cache(request, self._ways.cache)
        return await self._tries(request)

    async def permit(self, url: str) -> None:
        """Ask robots.txt alone, where it is to be asked."""
        end = url.find("/", 8)
        site = url if end < 0 else url[:end]
        if self._call.robots and not self._ways.robots.free(site):
            await self._ask_robots(url, site)

    async def _by_cache(self, request: Request, cache: PageCache) -> Response:
        page = await cache.find(request)
        if page is not None and cache.fresh(page):
            answer = page.response
            self._tell(request, time.time(), 0.0, answer, cached=True)
            return answer
        asked = request
        # Who asks with conditions of his own wants the 304 himself.
        if page is not None and not any(name.lower().startswith("if-") for name in request.headers):
            self._page = page
            asked = msgspec.structs.replace(request, headers={**request.headers, **page.conditions()})
        answer = await self._tries(asked)
        if self._page is not None and answer.status == 304:
            await cache.renew(request, self._page)
            return self._page.response
        await cache.keep(request, answer)
        return answer

    async def _tries(self, request: Request) -> Response:
        left = self._ways.retries if request.idempotent else 0
        wait = _FIRST_WAIT
        while True:
            try:
                answer = await self._once(request)
            except (ConnectionFailedError, TimedOutError) as error:
                # A site that is slow is not asked again at once, unless by way of another proxy.
                slow = isinstance(error, TimedOutError) and not self._pooled
                if not left or slow or self._tried_enough or not await self._rest(wait):
                    raise
            else:
                status = answer.status
                if status < 400 or not (passes(status) or self.another_proxy_may(status)):
                    return answer
                if not await self._rest_as_told(answer, wait, left):
                    return answer
            left -= 1
            wait *= 2

    def another_proxy_may(self, status: int) -> bool:
        """Whether it is the proxy that was turned away, and there are others."""
        return self._pooled and status in _ANOTHER_PROXY_MAY

    @property
    def _pooled(self) -> bool:
        return self._ways.proxies is not None and self._call.proxy is None

    def _patience(self) -> float:
        ends_at = self._call.ends_at
        if ends_at is None:
            return self._ways.patience
        # What is spent on waiting is lacking for the answer, so half of the time that is left is for that.
        return max(min(self._ways.patience, (ends_at - time.monotonic()) / 2), 0.0)

    async def _rest(self, seconds: float) -> bool:
        """Wait before the next try; False, at once, where there is no time for it."""
        seconds *= random.uniform(0.5, 1.0)  # noqa: S311  no secret hangs on it
        if seconds > self._patience():
            return False
        await self._ways.clock.sleep(seconds)
        return True

    async def _rest_as_told(self, answer: Response, seconds: float, left: int) -> bool:
        """Wait as the answer asks, if it does; False where there will be no other try.

        Where it asks for more time than there is, the job comes back then, unless the caller judges answers himself.
        """
        told = retry_after(answer.headers) if answer.status in (429, 503) else None
        # The time is that of the address that was turned away, and the next try goes out by another.
        if told is None or self._pooled:
            return left > 0 and await self._rest(seconds)
        if told > self._patience():
            if self._call.check:
                why = f"it answered {in_words(answer.status)} with Retry-After"
                raise HostClosedError(host_of(answer.url), told, why)
            return False
        if not left:
            return False
        # Not all at once, when the time has come.
        await self._ways.clock.sleep(told + seconds * random.random())  # noqa: S311
        return True

    async def _once(self, request: Request) -> Response:
        """One try, redirects followed."""
        watch = self._call.watch
        if watch is None:
            return await self._follow(request)
        at, started = time.time(), time.perf_counter()
        try:
            answer = await self._follow(request)
        except (ConnectionFailedError, TimedOutError, ProcessingError) as error:
            if not isinstance(error, RobotsError):
                self._tell(request, at, time.perf_counter() - started, None, error=str(error))
            raise
        seconds = time.perf_counter() - started
        if self._page is not None and answer.status == 304:
            self._tell(request, at, seconds, self._page.response, cached=True)
        else:
            self._tell(request, at, seconds, answer)
        return answer

    async def _follow(self, request: Request) -> Response:
        self._spent = 0.0
        answer = await self._hop(request)
        if answer.status < 300 or answer.status >= 400:
            return answer
        first = request.url
        for _ in range(MOST_REDIRECTS):
            following = request.redirected(answer)
            if following is None:
                return answer
            request = following
            answer = await self._hop(request)
        if request.redirected(answer) is None:
            return answer
        raise ProcessingError(f"{mask_url(first)} redirects without end", retryable=False)

    async def _hop(self, request: Request) -> Response:
        ways, call, url = self._ways, self._call, request.url
        end = url.find("/", 8)
        site = url if end < 0 else url[:end]
        host = ways.hosts.get(site) or ways.host(url, site)
        if call.robots and not ways.robots.free(site):
            await self._ask_robots(url, site)
        if ways.proxies is not None and call.proxy is None:
            return await self._by_pool(request, host, ways.proxies)
        return await self._send(request, host, call.proxy)

    async def _by_pool(self, request: Request, host: str, pool: ProxySource) -> Response:
        from longshore.scrape.proxies import NoProxyError, is_unreachable

        left, passed_over = self._ways.retries, set[Proxy]()
        while True:
            within = timedelta(seconds=self._patience())
            try:
                turn = await pool.acquire(host, session=self._call.session, within=within)
            except NoProxyError as error:
                raise HostClosedError(host, error.retry_in.total_seconds(), str(error)) from error
            try:
                answer = await self._send(request, host, turn.proxy)
            except BaseException as error:
                turn.failed(error)
                unreachable = is_unreachable(error)
                # Closed to this proxy, or the proxy is not there: nothing was sent, and the next one may do it.
                if not isinstance(error, SnoozeError) and not unreachable:
                    raise
                left -= turn.proxy in passed_over
                passed_over.add(turn.proxy)
                if left >= 0 and self._patience() > 0:
                    continue
                if unreachable:
                    # It is the proxies' fault, which the job is not to pay for.
                    raise HostClosedError(host, _PROXIES_AGAIN, f"no proxy lets it through: {error}") from error
                raise
            turn.answered(answer.status)
            return answer

    async def _send(self, request: Request, host: str, proxy: Proxy | None) -> Response:
        ways = self._ways
        identity = self._identity = "" if proxy is None else str(proxy)
        await ways.pace.slot(host, identity, patience=self._patience())
        total = self._call.total
        if self._spent:
            # All redirects together have the time of one try; waiting for a turn is not counted.
            total = max((ways.total if total is None else total) - self._spent, _LEAST)
        started = time.perf_counter()
        try:
            answer = await ways.transport.send(request, proxy, total)
        except (ConnectionFailedError, TimedOutError):
            ways.pace.answered(host, identity, None, None, time.perf_counter() - started)
            raise
        seconds = time.perf_counter() - started
        self._spent += seconds
        status = answer.status
        if self._pooled and status in _ANOTHER_PROXY_MAY:
            # The pool sends a proxy to rest that is turned away; a pace that waits for it would only hold up others.
            ways.pace.answered(host, identity, None, None, seconds)
        else:
            ways.pace.answered(host, identity, status, retry_after(answer.headers) if status >= 400 else None, seconds)
        return answer

    async def _ask_robots(self, url: str, site: str) -> None:
        try:
            await self._ways.robots.check(url, site, self._robots_txt)
        except (ConnectionFailedError, TimedOutError):
            # The file was tried as often as a page would have been; three times three tries help nobody.
            self._tried_enough = True
            raise
        except UnicodeEncodeError as error:
            raise not_a_url(url) from error

    async def _robots_txt(self, url: str) -> Response:
        # Neither watched nor bounded by this attempt: others wait for it, too.
        call = FetchOptions(robots=False, proxy=self._call.proxy, session=self._call.session, check=False)
        return await Fetch(self._ways, call)._tries(Request("GET", url))

    def _tell(
        self,
        request: Request,
        at: float,
        seconds: float,
        answer: Response | None,
        *,
        error: str = "",
        cached: bool = False,
    ) -> None:
        if self._call.watch is None:
            return
        self._call.watch(
            Exchange(
                method=request.method,
                url=request.url,
                final_url="" if answer is None else answer.url,
                request_headers={**self._ways.headers, **request.headers},
                request_body=request.body or b"",
                status=None if answer is None else answer.status,
                # Their names are of a kind of text that nobody else can store.
                headers={} if answer is None else {str(name): value for name, value in answer.headers.items()},
                body=b"" if answer is None else answer.body,
                error=error,
                at=at,
                seconds=seconds,
                identity=self._identity,
                cached=cached,
            )
        )
