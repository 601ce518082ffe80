"""One fetch, from request to response: cache, robots.txt, proxy, rate limit, redirects and retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from longshore.clock import Clock
from longshore.errors import ConnectionFailedError, ProcessingError, SnoozeError, TimedOutError
from longshore.pacing.contract import BLOCK_PAGE, HostClosedError, Limiter
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts, PrivateAddressError, names_an_address
from longshore.scrape.http.cookies import LONGEST_HOST
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response, in_words, is_temporary, retry_after
from longshore.scrape.http.robots import LONGEST_FILE, Robots, RobotsError
from longshore.scrape.http.transport import Transport, not_a_url
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import clean_url, host_of, mask_url

if TYPE_CHECKING:
    from longshore.scrape.block_pages import BlockDetector
    from longshore.scrape.http.page_cache import CachedPage, PageCache
    from longshore.scrape.proxies import ProxySource
    from longshore.scrape.proxies.environment import EnvironmentProxies

MOST_REDIRECTS = 20
"""As in browsers."""
_FIRST_WAIT = 0.5
_LEAST_SECONDS = 0.001
# Statuses that block one proxy; the site may serve the next one.
_ANOTHER_PROXY_MAY = frozenset({403, 407})
_PROXIES_AGAIN = 60.0
"""Seconds until a job returns whose proxies could not be reached but do not rest yet."""
_SITES_REMEMBERED = 10_000
_LONGEST_HOST = LONGEST_HOST + len(":65535")

Watch = Callable[[Exchange], None]


class HttpContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts and limits that all fetches of a client share."""

    transport: Transport
    headers: Mapping[str, str]
    """The headers that the transport adds to every request, if known; for the exchanges that `watch` gets."""
    pace: Limiter
    patience: float
    """Seconds a fetch may wait for its host or for a proxy."""
    total: float
    """Seconds one try may take."""
    retries: int
    clock: Clock
    robots: Robots
    proxies: ProxySource | None = None
    environment: EnvironmentProxies | None = None
    """The proxies of the environment, for requests that have no other one."""
    cache: PageCache | None = None
    policy: AddressPolicy
    private: set[str] = set()
    """Hosts that were found at a private address: a hint that saves a second try."""
    hosts: dict[str, str] = {}
    """A cache: the host of each site (a site is the beginning of a URL, up to the path)."""

    def host(self, url: str, site: str) -> str:
        """Return and cache the host that limits are counted by. Raise `ValidationError` if the URL has none."""
        host = host_of(url)
        if not host or len(host) > _LONGEST_HOST or not url[:8].lower().startswith(("http://", "https://")):
            raise not_a_url(url)
        if len(self.hosts) >= _SITES_REMEMBERED:
            self.hosts.clear()
        self.hosts[site] = host
        return host


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one fetch."""

    robots: bool = True
    watch: Watch | None = None
    ends_at: float | None = None
    """When the attempt must end (`time.monotonic`)."""
    total: float | None = None
    proxy: Proxy | None = None
    session: str = ""
    digest_auth: tuple[str, str] | None = None
    check: bool = True
    jar: str = ""
    """The name of the cookie jar: the run of the job."""
    own: OwnHosts | None = None
    """The hosts of the job; None takes the host of the URL that is asked for."""
    blocks: BlockDetector | None = None
    """Recognises block pages; None takes every page as it is."""


class Fetch:
    """One fetch in progress."""

    __slots__ = (
        "_asked",
        "_context",
        "_identity",
        "_options",
        "_own",
        "_page",
        "_retries_used",
        "_seconds_spent",
        "_slot_of_robots",
        "blocked",
    )

    def __init__(self, context: HttpContext, options: FetchOptions) -> None:
        self._context = context
        self._options = options
        self._own = options.own or OwnHosts()
        self._identity = ""
        self._asked = ""
        """The URL before redirects."""
        self.blocked = ""
        """Why the last response is a block page; empty if it is a page."""
        self._page: CachedPage | None = None
        self._seconds_spent = 0.0
        self._retries_used = False
        self._slot_of_robots: tuple[str, str] | None = None
        """The host and identity by which this fetch got a slot for robots.txt, until the page has used it, too."""

    async def run(self, request: Request) -> Response:
        """Return the response, with any status."""
        if self._context.cache is not None and request.method == "GET":
            return await self._from_cache(request, self._context.cache)
        return await self._with_retries(request)

    async def permit(self, url: str) -> None:
        """Check only robots.txt, if the options ask for it."""
        url = clean_url(url)
        self._own.begin(host_of(url))
        end = url.find("/", 8)
        site = url if end < 0 else url[:end]
        if self._options.robots and not self._context.robots.free(site):
            await self._ask_robots(url, site)

    async def _from_cache(self, request: Request, cache: PageCache) -> Response:
        page = await cache.find(request)
        if page is not None and cache.fresh(page) and not self._why_blocked(page.response, request.url):
            response = page.response
            self._own.begin(host_of(request.url))
            self._report(request, time.time(), 0.0, response, cached=True)
            return response
        asked = request
        # A caller that sends its own conditional headers wants the 304 itself.
        if page is not None and not any(name.lower().startswith("if-") for name in request.headers):
            self._page = page
            asked = msgspec.structs.replace(request, headers={**request.headers, **page.conditions()})
        response = await self._with_retries(asked)
        if self._page is not None and response.status == 304:
            await cache.renew(request, self._page)
            return self._page.response
        if not self.blocked:
            await cache.keep(request, response)
        return response

    async def _with_retries(self, request: Request) -> Response:
        retries_left = self._context.retries if request.idempotent else 0
        wait = _FIRST_WAIT
        while True:
            try:
                response = await self._once(request)
            except (ConnectionFailedError, TimedOutError) as error:
                # Do not retry a slow site at once, except through another proxy.
                slow = isinstance(error, TimedOutError) and not self._pooled
                if not retries_left or slow or self._retries_used or not await self._wait(wait):
                    raise
            else:
                status = response.status
                temporary = is_temporary(status) or self.another_proxy_may(status)
                if not self.blocked and (status < 400 or not temporary):
                    return response
                if not await self._wait_as_asked(response, wait, retries_left):
                    return response
            retries_left -= 1
            wait *= 2

    def another_proxy_may(self, status: int) -> bool:
        """Return whether this status blocks the proxy in use and the pool may have others."""
        return self._pooled and status in _ANOTHER_PROXY_MAY

    @property
    def _pooled(self) -> bool:
        return self._context.proxies is not None and self._options.proxy is None

    def _patience(self) -> float:
        ends_at = self._options.ends_at
        if ends_at is None:
            return self._context.patience
        # Keep half of the remaining time for the response itself.
        return max(min(self._context.patience, (ends_at - time.monotonic()) / 2), 0.0)

    async def _wait(self, seconds: float) -> bool:
        """Wait before the next try; return False at once if there is no time for it."""
        seconds *= random.uniform(0.5, 1.0)  # noqa: S311  jitter, not a secret
        if seconds > self._patience():
            return False
        await self._context.clock.sleep(seconds)
        return True

    async def _wait_as_asked(self, response: Response, seconds: float, retries_left: int) -> bool:
        """Wait before the next try, as long as Retry-After asks; return False if there will be no other try.

        Raise `HostClosedError` if the response asks for a longer wait than we have, so that the job returns later. With
        `check` off the caller gets the response instead.
        """
        asked_wait = retry_after(response.headers) if response.status in (429, 503) else None
        # Retry-After is for the address that was refused; the next try uses another proxy.
        if asked_wait is None or self._pooled:
            return retries_left > 0 and await self._wait(seconds)
        if asked_wait > self._patience():
            if self._options.check:
                why = f"it answered {in_words(response.status)} with Retry-After"
                raise HostClosedError(host_of(response.url), asked_wait, why)
            return False
        if not retries_left:
            return False
        # Jitter, so that waiting requests do not all start at the same moment.
        await self._context.clock.sleep(asked_wait + seconds * random.random())  # noqa: S311
        return True

    async def _once(self, request: Request) -> Response:
        """Return the response of one try, after redirects."""
        watch = self._options.watch
        if watch is None:
            return await self._follow(request)
        at, started = time.time(), time.perf_counter()
        try:
            response = await self._follow(request)
        except (ConnectionFailedError, TimedOutError, ProcessingError) as error:
            if not isinstance(error, RobotsError):
                self._report(request, at, time.perf_counter() - started, None, error=str(error))
            raise
        seconds = time.perf_counter() - started
        if self._page is not None and response.status == 304:
            self._report(request, at, seconds, self._page.response, cached=True)
        else:
            self._report(request, at, seconds, response)
        return response

    async def _follow(self, request: Request) -> Response:
        self._seconds_spent = 0.0
        first = self._asked = request.url
        response = await self._hop(request)
        if response.status < 300:
            return response
        response = await self._logged_in(request, response, first)
        if response.status < 300 or response.status >= 400:
            return response
        for _ in range(MOST_REDIRECTS):
            redirect = request.redirected(response)
            if redirect is None:
                return response
            request = redirect
            response = await self._logged_in(request, await self._hop(request), first)
        if request.redirected(response) is None:
            return response
        raise ProcessingError(f"{mask_url(first)} redirects without end", retryable=False)

    async def _logged_in(self, request: Request, response: Response, first: str) -> Response:
        """Send a request again with the login if the site of the `first` URL asks for a digest."""
        login = self._options.digest_auth
        if response.status != 401 or login is None or urlsplit(request.url)[:2] != urlsplit(first)[:2]:
            return response
        from longshore.scrape.http.digest import with_digest

        answer = with_digest(request, response, login)
        return response if answer is None else await self._hop(answer)

    async def _hop(self, request: Request) -> Response:
        context, options, url = self._context, self._options, request.url
        end = url.find("/", 8)
        site = url if end < 0 else url[:end]
        host = context.hosts.get(site) or context.host(url, site)
        self._own.begin(host)
        usual = None
        if context.environment is not None and context.proxies is None and options.proxy is None:
            usual = context.environment.proxy_for(url)
        proxied = context.proxies is not None or options.proxy is not None or usual is not None
        # The proxy resolves names; what the URL itself says can be judged.
        if proxied and names_an_address(host):
            context.policy.check_text(host, own=await self._own.include(host))
        if options.robots and not context.robots.free(site):
            await self._ask_robots(url, site)
        if context.proxies is not None and options.proxy is None:
            return await self._through_pool(request, host, context.proxies)
        if usual is not None:
            # The only way out: a site sees the same address as without it, so the rate of the host is the same.
            return await self._send(request, host, usual, "")
        return await self._send(request, host, options.proxy)

    async def _through_pool(self, request: Request, host: str, pool: ProxySource) -> Response:
        from longshore.scrape.proxies import NoProxyError, is_unreachable

        retries_left, tried = self._context.retries, set[Proxy]()
        while True:
            within = timedelta(seconds=self._patience())
            try:
                taken = await pool.acquire(host, session=self._options.session, within=within)
            except NoProxyError as error:
                raise HostClosedError(host, error.retry_in.total_seconds(), str(error)) from error
            try:
                response = await self._send(request, host, taken.proxy)
            except BaseException as error:
                taken.failed(error)
                unreachable = is_unreachable(error)
                # The host is closed to this proxy, or the proxy cannot be reached: nothing was sent, so try another.
                if not isinstance(error, SnoozeError) and not unreachable:
                    raise
                retries_left -= taken.proxy in tried
                tried.add(taken.proxy)
                if retries_left >= 0 and self._patience() > 0:
                    continue
                if unreachable:
                    # The proxies are to blame, so the job's attempt must not count.
                    raise HostClosedError(host, _PROXIES_AGAIN, f"no proxy lets it through: {error}") from error
                raise
            if self.blocked:
                taken.blocked(f"answered with {self.blocked}")
            else:
                taken.answered(response.status)
            return response

    async def _send(self, request: Request, host: str, proxy: Proxy | None, identity: str | None = None) -> Response:
        """Send a request. `identity` is what the rate of the host is counted by: the proxy, if it is not given."""
        context = self._context
        if identity is None:
            identity = "" if proxy is None else str(proxy)
        self._identity = identity
        if self._slot_of_robots == (host, identity):
            # The first page of a site goes out right after its robots.txt, as if the two were one request.
            self._slot_of_robots = None
        else:
            await context.pace.slot(host, identity, patience=self._patience())
        total = self._options.total
        if self._seconds_spent:
            # All redirects together share the time of one try; waiting for the rate limit does not count.
            total = max((context.total if total is None else total) - self._seconds_spent, _LEAST_SECONDS)
        if proxy is None and host in context.private and await self._own.include(host):
            request = request.to_own_host()
        started = time.perf_counter()
        try:
            try:
                response = await context.transport.send(request, proxy, total)
            except PrivateAddressError:
                # Nothing was sent.
                if proxy is not None or request.own or not await self._own.include(host):
                    raise
                response = await self._send_to_own(request, host, total)
        except (ConnectionFailedError, TimedOutError):
            context.pace.answered(host, identity, None, None, time.perf_counter() - started)
            raise
        seconds = time.perf_counter() - started
        self._seconds_spent += seconds
        status = response.status
        self.blocked = self._why_blocked(response, self._asked)
        if self.blocked:
            status = BLOCK_PAGE
        if self._pooled and (self.blocked or status in _ANOTHER_PROXY_MAY):
            # The pool rests the blocked proxy; slowing down the host would only delay the other proxies.
            context.pace.answered(host, identity, None, None, seconds)
        else:
            context.pace.answered(
                host,
                identity,
                status,
                retry_after(response.headers) if status >= 400 or self.blocked else None,
                seconds,
            )
        return response

    def _why_blocked(self, response: Response, asked: str) -> str:
        blocks = self._options.blocks
        return "" if blocks is None else blocks.why(response, asked)

    async def _send_to_own(self, request: Request, host: str, total: float | None) -> Response:
        """Send a request to a host of the job that turned out to be on a private network."""
        context = self._context
        if len(context.private) >= _SITES_REMEMBERED:
            context.private.clear()
        context.private.add(host)
        return await context.transport.send(request.to_own_host(), None, total)

    async def _ask_robots(self, url: str, site: str) -> None:
        try:
            if await self._context.robots.check(url, site, self._robots_txt):
                self._slot_of_robots = None  # the site asks for a delay between any two requests
        except (ConnectionFailedError, TimedOutError):
            # The robots.txt was already retried as often as a page; do not multiply the retries.
            self._retries_used = True
            raise
        except UnicodeEncodeError as error:
            raise not_a_url(url) from error

    async def _robots_txt(self, url: str) -> Response:
        # Not watched and not limited by this attempt: other attempts wait for the same file.
        options = FetchOptions(
            robots=False, proxy=self._options.proxy, session=self._options.session, check=False, own=self._own
        )
        fetch = Fetch(self._context, options)
        response = await fetch._with_retries(Request("GET", url, cut_at=LONGEST_FILE))
        self._slot_of_robots = host_of(url), fetch._identity
        return response

    def _report(
        self,
        request: Request,
        at: float,
        seconds: float,
        response: Response | None,
        *,
        error: str = "",
        cached: bool = False,
    ) -> None:
        if self._options.watch is None:
            return
        self._options.watch(
            Exchange(
                method=request.method,
                url=request.url,
                final_url="" if response is None else response.url,
                request_headers={**self._context.headers, **request.headers},
                request_body=request.body or b"",
                status=None if response is None else response.status,
                # The names are objects of multidict (`istr`); plain `str` can be encoded and sent to other processes.
                headers={} if response is None else {str(name): value for name, value in response.headers.items()},
                body=b"" if response is None else response.body,
                error=error,
                at=at,
                seconds=seconds,
                identity=self._identity,
                cached=cached,
            )
        )
