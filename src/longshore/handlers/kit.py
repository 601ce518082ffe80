"""The kit: the tools a handler is given. `AsyncKit` is for `async def` handlers, `SyncKit` for plain `def` handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from longshore.errors import ProcessingError
from longshore.handlers.call_cache import cache_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from longshore.handlers.handler import Handler
    from longshore.handlers.kit_tools import AsyncFetcher, SyncFetcher, SyncProxies, SyncTorSessions
    from longshore.job import Job
    from longshore.scrape.browser import AttemptBrowsers, SyncAttemptBrowsers
    from longshore.scrape.capture.trail import Trail
    from longshore.scrape.proxies import ProxyPool
    from longshore.scrape.records import Emission
    from longshore.scrape.tor import Tor

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
HttpT_co = TypeVar("HttpT_co", covariant=True)


class Tools(Protocol):
    """The tools that all attempts of a process share, for async and plain handlers."""

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Keep a record; return False if the handler's filter rejects it."""


class AsyncTools(Tools, Protocol):
    """The tools behind an `AsyncKit`. Each is created on first use."""

    def http(self, kit: Kit) -> AsyncFetcher:
        """Return the HTTP client of this attempt."""

    def browser(self, kit: Kit) -> AttemptBrowsers:
        """Return the browser access of this attempt."""

    def tor(self, kit: Kit) -> Tor:
        """Return the worker's own Tor."""

    def proxies(self, kit: Kit) -> ProxyPool:
        """Return the worker's proxies."""


class SyncTools(Tools, Protocol):
    """The tools behind a `SyncKit`. Each is created on first use."""

    def http(self, kit: Kit) -> SyncFetcher:
        """Return the HTTP client of this attempt."""

    def browser(self, kit: Kit) -> SyncAttemptBrowsers:
        """Return the browser access of this attempt."""

    def tor(self, kit: Kit) -> SyncTorSessions:
        """Return the worker's own Tor."""

    def proxies(self, kit: Kit) -> SyncProxies:
        """Return the worker's proxies."""


class Kit:
    """The tools that every handler receives with its job: the log and `emit`. `AsyncKit` and `SyncKit` add the others.

    One is created for every attempt, so its creation is cheap: the log is bound to the job, and every tool created, on
    first use.
    """

    __slots__ = ("_bound", "_http", "_log", "_tools", "emission", "ends_at", "handler", "job", "trail")

    def __init__(
        self,
        log: FilteringBoundLogger,
        tools: Tools,
        job: Job,
        handler: Handler | None = None,
        ends_at: float | None = None,
    ) -> None:
        """Take `log`, the worker's structlog logger, and `ends_at`, the attempt's deadline by `time.monotonic`."""
        self._log = log
        self._bound: FilteringBoundLogger | None = None
        self._tools = tools
        self._http: AsyncFetcher | SyncFetcher | None = None
        self.job = job
        self.handler = handler
        self.ends_at = ends_at
        self.emission: Emission | None = None
        """The emitted records; None before the first one."""
        self.trail: Trail | None = None
        """The requests and responses of this attempt; None before the first use of a tool that records them."""

    @property
    def log(self) -> FilteringBoundLogger:
        """A structlog logger whose lines carry the job: `kit.log.info("parsed", rows=12)`."""
        if self._bound is None:
            self._bound = self._log.bind(job_id=self.job.id, kind=self.job.kind)
        return self._bound

    def emit(self, record: object, kind: str = "record") -> bool:
        """Keep a record: an object, or a pydantic model. It becomes visible only if the attempt completes.

        Returns False if the handler's filter rejects it. Raises `ValidationError` if it does not fit the schema.
        """
        if self.emission is not None:  # the fast path: a handler may emit many records
            return self.emission.emit(record, kind)
        return self._tools.emit(self, record, kind)

    @staticmethod
    def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
        """Yield the items in lists of at most `size`: `for ids in kit.batched(job.payload["ids"], 50)`."""
        if size < 1:
            raise ValueError(f"kit.batched(..., {size}): a batch has at least one item")
        rest = iter(items)
        while batch := list(islice(rest, size)):
            yield batch

    def cache(self, function: Callable[P, R], /, *, ttl: float) -> Callable[P, R]:
        """Return the function with its results kept for `ttl` seconds: `await kit.cache(channel, ttl=3600)(number)`.

        All attempts of the same process share the results. Calls are equal if the function and its arguments are; an
        error is not kept. For pages, the setting `cache_hours` keeps answers on disk.
        """
        return partial(cache_of(self._tools).call, ttl, function)


class AsyncKit(Kit):
    """The tools that an `async def` handler receives with its job."""

    __slots__ = ()

    _tools: AsyncTools
    _http: AsyncFetcher | None

    if TYPE_CHECKING:
        # Only for the type of `tools`: every attempt makes a kit, and passing the call on would cost as much as that.
        def __init__(
            self,
            log: FilteringBoundLogger,
            tools: AsyncTools,
            job: Job,
            handler: Handler | None = None,
            ends_at: float | None = None,
        ) -> None: ...

    @property
    def http(self) -> AsyncFetcher:
        """The HTTP client, which respects the rate limit of each host: `await kit.http.get(url)`."""
        if self._http is None:
            self._http = self._tools.http(self)
        return self._http

    @property
    def browser(self) -> AttemptBrowsers:
        """The worker's browser: `async with kit.browser.page() as page: await page.open(url)`."""
        return self._tools.browser(self)

    @property
    def tor(self) -> Tor:
        """The worker's own Tor: `await kit.tor.proxy(session)`, `await kit.tor.new_identity()`."""
        return self._tools.tor(self)

    @property
    def proxies(self) -> ProxyPool:
        """The proxies of the configured file, for other clients; `kit.http` uses them automatically."""
        return self._tools.proxies(self)


class SyncKit(Kit):
    """The tools that a plain `def` handler receives with its job."""

    __slots__ = ()

    _tools: SyncTools
    _http: SyncFetcher | None

    if TYPE_CHECKING:
        # Only for the type of `tools`: every attempt makes a kit, and passing the call on would cost as much as that.
        def __init__(
            self,
            log: FilteringBoundLogger,
            tools: SyncTools,
            job: Job,
            handler: Handler | None = None,
            ends_at: float | None = None,
        ) -> None: ...

    @property
    def http(self) -> SyncFetcher:
        """The HTTP client, which respects the rate limit of each host: `kit.http.get(url)`."""
        if self._http is None:
            self._http = self._tools.http(self)
        return self._http

    @property
    def browser(self) -> SyncAttemptBrowsers:
        """The worker's browser: `with kit.browser.page() as page: page.open(url)`."""
        return self._tools.browser(self)

    @property
    def tor(self) -> SyncTorSessions:
        """The worker's own Tor: `kit.tor.proxy(session)`, `kit.tor.new_identity()`."""
        return self._tools.tor(self)

    @property
    def proxies(self) -> SyncProxies:
        """The proxies of the configured file, for other clients; `kit.http` uses them automatically."""
        return self._tools.proxies(self)


class JustHttp(Generic[HttpT_co]):
    """The tools of an attempt outside a worker: an HTTP client, and a list of the emitted records."""

    def __init__(self, http: HttpT_co | None = None) -> None:
        self._http = http
        self.records: list[tuple[str, object]] = []
        """The kind of each record, and the record."""

    def http(self, kit: Kit) -> HttpT_co:
        """Return the HTTP client; raise if there is none."""
        if self._http is None:
            raise self._missing(kit, "http")
        return self._http

    def browser(self, kit: Kit) -> NoReturn:
        """Raise `ProcessingError`: only a worker has a browser."""
        raise self._missing(kit, "browser")

    def tor(self, kit: Kit) -> NoReturn:
        """Raise `ProcessingError`: only a worker has a Tor."""
        raise self._missing(kit, "tor")

    def proxies(self, kit: Kit) -> NoReturn:
        """Raise `ProcessingError`: only a worker has proxies."""
        raise self._missing(kit, "proxies")

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Add the record to the list."""
        del kit
        self.records.append((kind, record))
        return True

    @staticmethod
    def _missing(kit: Kit, name: str) -> ProcessingError:
        message = f"There is no kit.{name} outside a worker (job {kit.job.id}). `longshore work FILE` has one."
        return ProcessingError(message, retryable=False)


class NoTools(JustHttp[NoReturn]):
    """The tools of a task that a `Worker` class runs by itself: none. Records cannot be kept, either."""

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Raise `ProcessingError`: records cannot be kept here."""
        del record, kind
        raise self._missing(kit, "emit")
