"""The kit: the tools a handler is given. `AsyncKit` is for `async def` handlers, `SyncKit` for plain `def` handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from longshore.errors import ProcessingError

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

HttpT_co = TypeVar("HttpT_co", covariant=True)


class Tools(Protocol):
    """What all attempts of a process share, for handlers of either sort."""

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Take a record."""


class AsyncTools(Tools, Protocol):
    """The tools behind an `AsyncKit`. Each is made when it is first asked for."""

    def http(self, kit: Kit) -> AsyncFetcher:
        """Return what this attempt fetches with."""

    def browser(self, kit: Kit) -> AttemptBrowsers:
        """Return what this attempt opens pages with."""

    def tor(self, kit: Kit) -> Tor:
        """Return the worker's own Tor."""

    def proxies(self, kit: Kit) -> ProxyPool:
        """Return the worker's proxies."""


class SyncTools(Tools, Protocol):
    """The tools behind a `SyncKit`. Each is made when it is first asked for."""

    def http(self, kit: Kit) -> SyncFetcher:
        """Return what this attempt fetches with."""

    def browser(self, kit: Kit) -> SyncAttemptBrowsers:
        """Return what this attempt opens pages with."""

    def tor(self, kit: Kit) -> SyncTorSessions:
        """Return the worker's own Tor."""

    def proxies(self, kit: Kit) -> SyncProxies:
        """Return the worker's proxies."""


class Kit:
    """What every handler is given beside its job: the log, and `emit`. `AsyncKit` and `SyncKit` add the other tools.

    Made for every attempt, so making one costs next to nothing: the log is bound to the job when it is first asked for,
    and every tool is made when it is first used.
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
        """`log` is the worker's own structlog logger; `ends_at` is when the attempt must be over (`time.monotonic`)."""
        self._log = log
        self._bound: FilteringBoundLogger | None = None
        self._tools = tools
        self._http: AsyncFetcher | SyncFetcher | None = None
        self.job = job
        self.handler = handler
        self.ends_at = ends_at
        self.emission: Emission | None = None
        """What was emitted so far; None before the first record."""
        self.trail: Trail | None = None
        """What was asked and answered so far; None before the first use of a tool that notes it."""

    @property
    def log(self) -> FilteringBoundLogger:
        """A structlog logger whose lines carry the job: `kit.log.info("parsed", rows=12)`."""
        if self._bound is None:
            self._bound = self._log.bind(job_id=self.job.id, kind=self.job.kind)
        return self._bound

    def emit(self, record: object, kind: str = "record") -> bool:
        """Keep a record: an object, or a pydantic model. It becomes visible when the attempt has completed, or never.

        Returns False if the handler's filter rejects it. Raises `ValidationError` if it does not fit the schema.
        """
        if self.emission is not None:  # by the shortest way: there are many records
            return self.emission.emit(record, kind)
        return self._tools.emit(self, record, kind)


class AsyncKit(Kit):
    """What an `async def` handler is given beside its job."""

    __slots__ = ()

    _tools: AsyncTools
    _http: AsyncFetcher | None

    def __init__(
        self,
        log: FilteringBoundLogger,
        tools: AsyncTools,
        job: Job,
        handler: Handler | None = None,
        ends_at: float | None = None,
    ) -> None:
        """As `Kit`."""
        super().__init__(log, tools, job, handler, ends_at)

    @property
    def http(self) -> AsyncFetcher:
        """Fetches pages, at the pace each host takes: `await kit.http.get(url)`."""
        if self._http is None:
            self._http = self._tools.http(self)
        return self._http

    @property
    def browser(self) -> AttemptBrowsers:
        """Opens pages in the worker's own browser: `async with kit.browser.page() as page: await page.open(url)`."""
        return self._tools.browser(self)

    @property
    def tor(self) -> Tor:
        """The worker's own Tor: `await kit.tor.proxy(session)`, `await kit.tor.new_identity()`."""
        return self._tools.tor(self)

    @property
    def proxies(self) -> ProxyPool:
        """The proxies of the file that is set, for other clients; `kit.http` uses them by itself."""
        return self._tools.proxies(self)


class SyncKit(Kit):
    """What a plain `def` handler is given beside its job."""

    __slots__ = ()

    _tools: SyncTools
    _http: SyncFetcher | None

    def __init__(
        self,
        log: FilteringBoundLogger,
        tools: SyncTools,
        job: Job,
        handler: Handler | None = None,
        ends_at: float | None = None,
    ) -> None:
        """As `Kit`."""
        super().__init__(log, tools, job, handler, ends_at)

    @property
    def http(self) -> SyncFetcher:
        """Fetches pages, at the pace each host takes: `kit.http.get(url)`."""
        if self._http is None:
            self._http = self._tools.http(self)
        return self._http

    @property
    def browser(self) -> SyncAttemptBrowsers:
        """Opens pages in the worker's own browser: `with kit.browser.page() as page: page.open(url)`."""
        return self._tools.browser(self)

    @property
    def tor(self) -> SyncTorSessions:
        """The worker's own Tor: `kit.tor.proxy(session)`, `kit.tor.new_identity()`."""
        return self._tools.tor(self)

    @property
    def proxies(self) -> SyncProxies:
        """The proxies of the file that is set, for other clients; `kit.http` uses them by itself."""
        return self._tools.proxies(self)


class JustHttp(Generic[HttpT_co]):
    """The tools of an attempt outside a worker: something to fetch with, and a list that takes the records."""

    def __init__(self, http: HttpT_co | None = None) -> None:
        self._http = http
        self.records: list[tuple[str, object]] = []
        """The kind of each record, and the record."""

    def http(self, kit: Kit) -> HttpT_co:
        """Return what it was given."""
        if self._http is None:
            raise self._missing(kit, "http")
        return self._http

    def browser(self, kit: Kit) -> NoReturn:
        """Raise: there is none here."""
        raise self._missing(kit, "browser")

    def tor(self, kit: Kit) -> NoReturn:
        """Raise: there is none here."""
        raise self._missing(kit, "tor")

    def proxies(self, kit: Kit) -> NoReturn:
        """Raise: there are none here."""
        raise self._missing(kit, "proxies")

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Note the record."""
        del kit
        self.records.append((kind, record))
        return True

    @staticmethod
    def _missing(kit: Kit, name: str) -> ProcessingError:
        message = f"There is no kit.{name} outside a worker (job {kit.job.id}). `longshore work FILE` has one."
        return ProcessingError(message, retryable=False)


class NoTools(JustHttp[NoReturn]):
    """Those of a task that a `Worker` class runs by itself: none. Records would have nowhere to go, either."""

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Raise: there is nowhere to keep a record."""
        del record, kind
        raise self._missing(kit, "emit")
