"""Fetching over HTTP: pooled, bounded in time and size, polite, with errors that say whether to try again.

    http = Http()
    page = await http.get("https://example.com/")

Every request asks the site's robots.txt, waits for its turn with the pace, goes through a proxy where there is a pool
of them, and is tried again where that may help. `SyncHttp` is the same without await.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack

from longshore.clock import Clock, SystemClock
from longshore.errors import SettingsError, ValidationError
from longshore.pacing.contract import Limiter, Unlimited
from longshore.scrape.http.fetch import Fetch, FetchOptions, HttpContext, Watch
from longshore.scrape.http.fetch_all import AT_ONCE, fetch_all
from longshore.scrape.http.request import BodyOptions, Options, Request, check_options, make_request
from longshore.scrape.http.response import Response, StatusError
from longshore.scrape.http.robots import Robots
from longshore.scrape.http.transport import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_MAX_BYTES,
    DEFAULT_TIMEOUT,
    AiohttpTransport,
    TransferLimits,
    Transport,
)
from longshore.scrape.http.user_agent import PRODUCT, robot_name
from longshore.scrape.http.user_agent import user_agent as default_user_agent
from longshore.scrape.proxies.proxy_file import Proxy, checked_proxy
from longshore.system.loop_thread import LoopThread

if TYPE_CHECKING:
    from longshore.scrape.http.page_cache import PageCache
    from longshore.scrape.proxies import ProxySource

__all__ = ["AttemptHttp", "Http", "Response", "StatusError", "SyncAttemptHttp", "SyncHttp"]

T = TypeVar("T")


class RunsCoroutine(Protocol):
    """Runs a coroutine to its end."""

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


DEFAULT_PATIENCE = timedelta(seconds=30)
DEFAULT_RETRIES = 2
USER_AGENT = PRODUCT
"""What we are called, without the version."""


class AttemptHttp:
    """Fetches pages in one attempt at a job. Made by `Http.attempt`; costs next to nothing."""

    def __init__(self, ways: HttpContext, call: FetchOptions) -> None:
        self._ways = ways
        self._call = call

    async def get(self, url: str, **options: Unpack[Options]) -> Response:
        """Fetch a URL, following redirects. See `request`."""
        return await self.request("GET", url, **options)

    async def get_all(
        self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]
    ) -> list[Response]:
        """Fetch many URLs, so many at once, each at its host's pace. Their answers, in the same order.

        Raises the first error there is, as `request` does, and ends the others.
        """
        return await fetch_all(lambda url: self.get(url, **options), urls, at_once)

    async def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a body (`data` or `json`) to a URL; once, for who knows what a second time would do. See `request`."""
        return await self.request("POST", url, **options)

    async def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a request of any method, following redirects. `BodyOptions` says what may be given.

        Raises `StatusError` for an answer of 400 and above, unless `check` is off; `ConnectionFailedError` and
        `TimedOutError` for trouble on the way; `RobotsError` for what robots.txt forbids; `HostClosedError`, by which
        the job comes back later at no cost, where the host or every proxy must be left alone for longer than we may
        wait; `ProcessingError` for a body that is too large or redirects without end; `ValidationError` for what is no
        URL, or cannot be sent.
        """
        if not options:
            call, request = self._call, Request(method, url)
        else:
            call, request = _with(self._call, options), _made(method, url, options)
        fetch = Fetch(self._ways, call)
        answer = await fetch.run(request)
        if answer.status >= 400 and call.check:
            status = answer.status
            again = True if fetch.another_proxy_may(status) else None
            raise StatusError(request.url, status, final_url=answer.url, retryable=again)
        return answer

    async def permit(self, url: str) -> None:
        """Return if robots.txt lets this URL be asked for. Raises `RobotsError`, or what asking for the file raises."""
        await Fetch(self._ways, self._call).permit(url)


class Http(AttemptHttp):
    """Fetches pages for async handlers. Opens its connections at the first fetch; `close` lets go of them."""

    def __init__(
        self,
        *,
        timeout: timedelta = DEFAULT_TIMEOUT,
        connect_timeout: timedelta = DEFAULT_CONNECT_TIMEOUT,
        first_byte_timeout: timedelta | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        retries: int = DEFAULT_RETRIES,
        patience: timedelta = DEFAULT_PATIENCE,
        user_agent: str | None = None,
        robots: bool = True,
        pace: Limiter | None = None,
        proxies: ProxySource | None = None,
        cache: PageCache | None = None,
        transport: Literal["aiohttp", "curl"] | Transport = "aiohttp",
        clock: Clock | None = None,
    ) -> None:
        """How everything is fetched.

        `timeout` bounds a try from its beginning to the last byte, redirects included, `connect_timeout` the way to a
        connection, `first_byte_timeout` the wait for the answer to begin, `max_bytes` a body. A request that can be
        sent twice is tried again up to `retries` times, after an error on the way, 408, 425, 429 and 5xx. `patience` is
        how long a fetch may wait for the host or a proxy. With `proxies` nothing is ever sent without one of them.
        """
        agent = user_agent or default_user_agent()
        clock = clock or SystemClock()
        pace = pace or Unlimited()
        bounds = TransferLimits(
            total=timeout.total_seconds(),
            connect=connect_timeout.total_seconds(),
            first_byte=None if first_byte_timeout is None else first_byte_timeout.total_seconds(),
            max_bytes=max_bytes,
        )
        ways = HttpContext(
            transport=_transport(transport, bounds, agent),
            # curl sends those of a browser.
            headers={} if transport == "curl" else {"User-Agent": agent},
            pace=pace,
            patience=patience.total_seconds(),
            total=bounds.total,
            retries=retries,
            clock=clock,
            robots=Robots(robot_name(agent), pace, clock),
            proxies=proxies,
            cache=cache,
        )
        super().__init__(ways, FetchOptions(robots=robots))

    def attempt(
        self, *, watch: Watch | None = None, ends_at: float | None = None, robots: bool | None = None
    ) -> AttemptHttp:
        """The same for one attempt, over the same connections.

        `watch` is told of every exchange, those answered by the cache included. `ends_at` is when the attempt will be
        ended (`time.monotonic`): what comes too late for it is not waited for. `robots` overrules the switch.
        """
        by_robots = self._call.robots if robots is None else robots
        return AttemptHttp(self._ways, FetchOptions(robots=by_robots, watch=watch, ends_at=ends_at))

    async def close(self) -> None:
        """Close the connections. Closing twice is harmless; a later fetch opens new ones."""
        await self._ways.robots.close()
        await self._ways.transport.close()


class SyncAttemptHttp:
    """The same for one attempt of a plain handler."""

    def __init__(self, http: AttemptHttp, run: RunsCoroutine) -> None:
        self._attempt_http = http
        self._run = run

    def get(self, url: str, **options: Unpack[Options]) -> Response:
        """As `AttemptHttp.get`."""
        return self._run(self._attempt_http.get(url, **options))

    def get_all(self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]) -> list[Response]:
        """As `AttemptHttp.get_all`."""
        return self._run(self._attempt_http.get_all(urls, at_once=at_once, **options))

    def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.post`."""
        return self._run(self._attempt_http.post(url, **options))

    def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.request`."""
        return self._run(self._attempt_http.request(method, url, **options))


class SyncHttp(SyncAttemptHttp):
    """The same for plain handlers: `kit.http.get(url)` without await, from any thread."""

    def __init__(self, http: Http | None = None) -> None:
        self._http = http or Http()
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()
        super().__init__(self._http, self._call)

    def attempt(
        self, *, watch: Watch | None = None, ends_at: float | None = None, robots: bool | None = None
    ) -> SyncAttemptHttp:
        """As `Http.attempt`. `watch` is called on a thread of our own, while the handler waits."""
        return SyncAttemptHttp(self._http.attempt(watch=watch, ends_at=ends_at, robots=robots), self._call)

    def close(self) -> None:
        """As `Http.close`."""
        if self._thread is not None:
            self._thread.call(self._http.close())
            self._thread.close()
            self._thread = None

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._starting:
            if self._thread is None:
                self._thread = LoopThread("longshore-http")
        return self._thread.call(coroutine)


def _transport(named: Literal["aiohttp", "curl"] | Transport, bounds: TransferLimits, agent: str) -> Transport:
    match named:
        case "aiohttp":
            return AiohttpTransport(bounds, agent)
        case "curl":
            from longshore.scrape.http.curl_transport import CurlTransport

            return CurlTransport(bounds)
        case str():
            raise SettingsError(f"There is no transport '{named}'. Choose aiohttp or curl.")
        case _:
            return named


def _with(call: FetchOptions, options: BodyOptions) -> FetchOptions:
    check_options(options)
    timeout, proxy = options.get("timeout"), options.get("proxy")
    total = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if total is not None and not 0 < total < math.inf:
        raise ValidationError(f"A request has timeout={timeout!r}. Give it seconds above 0.")
    return FetchOptions(
        robots=call.robots,
        watch=call.watch,
        ends_at=call.ends_at,
        total=total,
        proxy=None if proxy is None else _proxy(proxy),
        session=options.get("session", ""),
        check=options.get("check", True),
    )


def _made(method: str, url: str, options: BodyOptions) -> Request:
    return make_request(
        method,
        url,
        headers=options.get("headers"),
        params=options.get("params"),
        data=options.get("data"),
        json=options.get("json"),
    )


def _proxy(url: str) -> Proxy:
    try:
        return checked_proxy(url)
    except ValueError as error:
        raise ValidationError(f"The proxy given is no URL of one: it {error}.") from error
