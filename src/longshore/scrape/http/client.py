"""The HTTP client: pooled connections, limits on time and size, rate limits, and errors that say whether to retry.

    http = Http()
    page = await http.get("https://example.com/")

Every request checks the site's robots.txt, waits for the rate limit of its host, goes through a proxy if there is a
pool of them, and is retried if that may help. `SyncHttp` has the same calls without await.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.errors import SettingsError, ValidationError
from longshore.pacing.contract import Limiter, Unlimited
from longshore.scrape.block_pages import BlockDetector, BlockPage
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts
from longshore.scrape.http.fetch import Fetch, FetchOptions, HttpContext, Watch
from longshore.scrape.http.fetch_all import AT_ONCE, fetch_all
from longshore.scrape.http.request import BodyOptions, Options, Request, check_options, make_request
from longshore.scrape.http.response import BlockPageError, Response, StatusError
from longshore.scrape.http.robots import Robots
from longshore.scrape.http.transport import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_MAX_BYTES,
    DEFAULT_TIMEOUT,
    AiohttpTransport,
    TransferLimits,
    Transport,
)
from longshore.scrape.http.user_agent import PRODUCT, robot_name, user_agent
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.scrape.proxies.proxy_file import Proxy, checked_proxy
from longshore.system.loop_thread import LoopThread
from longshore.url import clean_url

if TYPE_CHECKING:
    from longshore.scrape.http.page_cache import PageCache
    from longshore.scrape.proxies import ProxySource

__all__ = ["AttemptHttp", "Http", "HttpOptions", "Response", "StatusError", "SyncAttemptHttp", "SyncHttp"]

T = TypeVar("T")


class RunsCoroutine(Protocol):
    """A function that runs a coroutine to its end and returns its value."""

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


DEFAULT_PATIENCE = timedelta(seconds=30)
DEFAULT_RETRIES = 2
USER_AGENT = PRODUCT
"""Our user agent without the version."""


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and the user agent of an HTTP client."""

    timeout: timedelta = DEFAULT_TIMEOUT
    """For a try: from its beginning to the last byte, redirects included."""
    connect_timeout: timedelta = DEFAULT_CONNECT_TIMEOUT
    first_byte_timeout: timedelta | None = None
    """Until the response begins; None leaves it to `timeout`."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """The largest body."""
    retries: int = DEFAULT_RETRIES
    """Further tries of an idempotent request after a connection error, 408, 425, 429 and 5xx."""
    patience: timedelta = DEFAULT_PATIENCE
    """How long a fetch may wait for its host or for a proxy."""
    user_agent: str | None = None
    robots: bool = True
    """Whether robots.txt is obeyed."""
    private_hosts: tuple[str, ...] = ()
    """Names, addresses and networks that may be reached although they are not public; see `AddressPolicy`."""
    block_pages: tuple[BlockPage, ...] = ()
    """Pages that are refusals whatever their status says."""
    known_block_pages: bool = True
    """Whether the block pages of large delivery networks are recognised."""

    def limits(self) -> TransferLimits:
        """Return the limits of one try."""
        first_byte = self.first_byte_timeout
        return TransferLimits(
            total=self.timeout.total_seconds(),
            connect=self.connect_timeout.total_seconds(),
            first_byte=None if first_byte is None else first_byte.total_seconds(),
            max_bytes=self.max_bytes,
        )


class HttpKeywords(TypedDict, total=False):
    """The fields of `HttpOptions`, as keywords of `Http`."""

    timeout: timedelta
    connect_timeout: timedelta
    first_byte_timeout: timedelta | None
    max_bytes: int
    retries: int
    patience: timedelta
    user_agent: str | None
    robots: bool
    private_hosts: tuple[str, ...]
    block_pages: tuple[BlockPage, ...]
    known_block_pages: bool


class AttemptHttp:
    """The HTTP client for one attempt at a job. `Http.attempt` makes one, at almost no cost."""

    def __init__(self, context: HttpContext, options: FetchOptions) -> None:
        self._context = context
        self._options = options

    async def get(self, url: str, **options: Unpack[Options]) -> Response:
        """Fetch a URL, follow redirects, and return the response. See `request`."""
        return await self.request("GET", url, **options)

    async def get_all(
        self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]
    ) -> list[Response]:
        """Fetch many URLs, `at_once` at a time, and return their responses in the order of `urls`.

        Every request respects the rate limit of its host. The first error is raised, as by `request`, and cancels the
        other requests.
        """
        return await fetch_all(lambda url: self.get(url, **options), urls, at_once)

    async def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a body (`data`, `json` or `files`) to a URL. Never retried: POST is not idempotent. See `request`."""
        return await self.request("POST", url, **options)

    async def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a request, follow redirects, and return the response. `BodyOptions` lists the options.

        Raise `StatusError` for a status of 400 and above and `BlockPageError` for a block page, unless `check` is
        False; `ConnectionFailedError` and `TimedOutError` for network errors; `RobotsError` if robots.txt forbids the
        URL; `HostClosedError` if the host or every proxy must not be used for longer than we may wait: the job then
        returns later and no attempt is counted; `ProcessingError` for a body that is too large or endless redirects;
        `ValidationError` for an invalid URL or body.
        """
        if not options and method == "GET":
            fetch_options, request = self._options, Request(method, clean_url(url), jar=self._options.jar)
        else:
            fetch_options = _with(self._options, options)
            request = _request(method, url, options, fetch_options.jar)
        fetch = Fetch(self._context, fetch_options)
        response = await fetch.run(request)
        if response.status >= 400 and fetch_options.check:
            status = response.status
            retryable = True if fetch.another_proxy_may(status) else None
            raise StatusError(request.url, status, final_url=response.url, retryable=retryable)
        if fetch.blocked and fetch_options.check:
            raise BlockPageError(request.url, fetch.blocked, status=response.status)
        return response

    async def permit(self, url: str) -> None:
        """Return if robots.txt allows this URL. Raise `RobotsError` if not, or the error of fetching the file."""
        await Fetch(self._context, self._options).permit(url)


class Http(AttemptHttp):
    """The HTTP client for async handlers. It connects at the first fetch; `close` closes its connections."""

    def __init__(
        self,
        options: HttpOptions | None = None,
        *,
        pace: Limiter | None = None,
        proxies: ProxySource | None = None,
        cache: PageCache | None = None,
        transport: Literal["aiohttp", "curl"] | Transport = "aiohttp",
        clock: Clock | None = None,
        **changes: Unpack[HttpKeywords],
    ) -> None:
        """Make a client; `changes` replace fields of `options`.

        The `pace` limits the request rate of each host. With `proxies`, every request goes through one of them; without
        them, through the proxy that the environment names, if any (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`).
        """
        options = msgspec.structs.replace(options or HttpOptions(), **changes)
        agent = options.user_agent or user_agent()
        clock = clock or SystemClock()
        pace = pace or Unlimited()
        limits = options.limits()
        policy = AddressPolicy(options.private_hosts)
        context = HttpContext(
            transport=_transport(transport, limits, agent, policy),
            policy=policy,
            # curl sends the headers of a browser.
            headers={} if transport == "curl" else {"User-Agent": agent},
            pace=pace,
            patience=options.patience.total_seconds(),
            total=limits.total,
            retries=options.retries,
            clock=clock,
            robots=Robots(robot_name(agent), pace, clock),
            proxies=proxies,
            environment=None if proxies is not None else EnvironmentProxies.of(os.environ),
            cache=cache,
        )
        blocks = BlockDetector(options.block_pages, known=options.known_block_pages)
        super().__init__(context, FetchOptions(robots=options.robots, blocks=blocks))

    def attempt(
        self,
        *,
        watch: Watch | None = None,
        ends_at: float | None = None,
        robots: bool | None = None,
        jar: str = "",
        own: OwnHosts | None = None,
        block_pages: Sequence[BlockPage] = (),
    ) -> AttemptHttp:
        """Return the client for one attempt, over the same connections.

        `watch` is called with every exchange, cached responses included. `ends_at` is when the attempt must end
        (`time.monotonic`): a fetch does not wait beyond it. `robots` overrides the option of the same name. `jar`
        names the cookies of the attempt, which it shares with attempts of the same name. `own` are the hosts of the
        job, which it may reach on a private network; without it, each fetch may reach its own host. `block_pages` are
        added to those of the client.
        """
        options = msgspec.structs.replace(
            self._options,
            robots=self._options.robots if robots is None else robots,
            watch=watch,
            ends_at=ends_at,
            jar=jar,
            own=own,
            blocks=None if self._options.blocks is None else self._options.blocks.with_rules(block_pages),
        )
        return AttemptHttp(self._context, options)

    async def close(self) -> None:
        """Close the connections. Closing twice is harmless; a later fetch opens new ones."""
        await self._context.robots.close()
        await self._context.transport.close()


class SyncAttemptHttp:
    """The HTTP client for one attempt of a plain handler."""

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
    """The HTTP client for plain handlers: `kit.http.get(url)` without await, from any thread."""

    def __init__(self, http: Http | None = None) -> None:
        self._http = http or Http()
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()
        super().__init__(self._http, self._call)

    def attempt(
        self,
        *,
        watch: Watch | None = None,
        ends_at: float | None = None,
        robots: bool | None = None,
        jar: str = "",
        own: OwnHosts | None = None,
        block_pages: Sequence[BlockPage] = (),
    ) -> SyncAttemptHttp:
        """As `Http.attempt`. `watch` is called in the event loop's thread while the handler waits."""
        attempt = self._http.attempt(
            watch=watch, ends_at=ends_at, robots=robots, jar=jar, own=own, block_pages=block_pages
        )
        return SyncAttemptHttp(attempt, self._call)

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


def _transport(
    transport: Literal["aiohttp", "curl"] | Transport, limits: TransferLimits, agent: str, policy: AddressPolicy
) -> Transport:
    match transport:
        case "aiohttp":
            return AiohttpTransport(limits, agent, policy)
        case "curl":
            from longshore.scrape.http.curl_transport import CurlTransport

            return CurlTransport(limits, policy)
        case str():
            raise SettingsError(f"There is no transport '{transport}'. Choose aiohttp or curl.")
        case _:
            return transport


def _with(fetch_options: FetchOptions, options: BodyOptions) -> FetchOptions:
    check_options(options)
    timeout, proxy = options.get("timeout"), options.get("proxy")
    total = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if total is not None and not 0 < total < math.inf:
        raise ValidationError(f"A request has timeout={timeout!r}. Give it seconds above 0.")
    return FetchOptions(
        robots=fetch_options.robots,
        watch=fetch_options.watch,
        ends_at=fetch_options.ends_at,
        total=total,
        proxy=None if proxy is None else _proxy(proxy),
        session=options.get("session", ""),
        jar=f"{fetch_options.jar}/{options['jar']}" if options.get("jar") else fetch_options.jar,
        own=fetch_options.own,
        blocks=fetch_options.blocks,
        digest_auth=options.get("digest_auth"),
        check=options.get("check", True),
    )


def _request(method: str, url: str, options: BodyOptions, jar: str) -> Request:
    return make_request(
        method,
        url,
        headers=options.get("headers"),
        params=options.get("params"),
        data=options.get("data"),
        json=options.get("json"),
        files=options.get("files"),
        jar=jar,
    )


def _proxy(url: str) -> Proxy:
    try:
        return checked_proxy(url)
    except ValueError as error:
        raise ValidationError(f"The option proxy is not the URL of a proxy: it {error}.") from error
