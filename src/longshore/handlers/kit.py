"""The kit: the tools a handler is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from longshore.errors import ProcessingError

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.job import Job


class Tools(Protocol):
    """What all attempts of a process share. Each tool is made when it is first asked for."""

    def http(self, kit: Kit) -> Any:
        """What this attempt fetches with."""

    def browser(self, kit: Kit) -> Any:
        """What this attempt opens pages with."""

    def tor(self, kit: Kit) -> Any:
        """The worker's own Tor."""

    def proxies(self, kit: Kit) -> Any:
        """The worker's proxies."""

    def emit(self, kit: Kit, record: Any, kind: str) -> bool:
        """Take a record."""


class Kit:
    """What a handler is given beside its job.

    Made for every attempt, so making one costs next to nothing: the log is bound to the job when it is first asked for,
    and every tool is made when it is first used.
    """

    __slots__ = ("_bound", "_http", "_log", "_tools", "emission", "ends_at", "handler", "job", "trail")

    def __init__(
        self, log: Any, tools: Tools, job: Job, handler: Handler | None = None, ends_at: float | None = None
    ) -> None:
        """`log` is the worker's own structlog logger; `ends_at` is when the attempt must be over (`time.monotonic`)."""
        self._log = log
        self._bound: Any = None
        self._tools = tools
        self._http: Any = None
        self.job = job
        self.handler = handler
        self.ends_at = ends_at
        self.emission: Any = None
        """What was emitted so far; None where nothing was."""
        self.trail: Any = None
        """What was asked and answered on the way; None where nothing was."""

    @property
    def log(self) -> Any:
        """A structlog logger whose lines carry the job: `kit.log.info("parsed", rows=12)`."""
        if self._bound is None:
            self._bound = self._log.bind(job_id=self.job.id, kind=self.job.kind)
        return self._bound

    @property
    def http(self) -> Any:
        """Fetches pages, at the pace each host takes: `await kit.http.get(url)`; in plain handlers without await."""
        if self._http is None:
            self._http = self._tools.http(self)
        return self._http

    @property
    def browser(self) -> Any:
        """Opens pages in the worker's own browser: `async with kit.browser.page() as page: await page.open(url)`.

        In plain handlers without async and await.
        """
        return self._tools.browser(self)

    @property
    def tor(self) -> Any:
        """The worker's own Tor: `kit.tor.proxy(session)`, `kit.tor.new_identity()`."""
        return self._tools.tor(self)

    @property
    def proxies(self) -> Any:
        """The proxies of the file that is set; `kit.http` uses them by itself."""
        return self._tools.proxies(self)

    def emit(self, record: Any, kind: str = "record") -> bool:
        """Keep a record: an object, or a pydantic model. It becomes visible when the attempt has completed, or never.

        False where the handler's filter rejects it. Raises `ValidationError` where it does not fit the schema.
        """
        if self.emission is not None:  # by the shortest way: there are many records
            return bool(self.emission.emit(record, kind))
        return self._tools.emit(self, record, kind)


class JustHttp:
    """The tools of an attempt outside a worker: something to fetch with, and a list that takes the records."""

    def __init__(self, http: Any = None) -> None:
        self._http = http
        self.records: list[tuple[str, Any]] = []
        """The kind of each record, and the record."""

    def http(self, kit: Kit) -> Any:
        """What it was given."""
        if self._http is None:
            raise self._missing(kit, "http")
        return self._http

    def browser(self, kit: Kit) -> Any:
        """None here."""
        raise self._missing(kit, "browser")

    def tor(self, kit: Kit) -> Any:
        """None here."""
        raise self._missing(kit, "tor")

    def proxies(self, kit: Kit) -> Any:
        """None here."""
        raise self._missing(kit, "proxies")

    def emit(self, kit: Kit, record: Any, kind: str) -> bool:
        """Note it."""
        del kit
        self.records.append((kind, record))
        return True

    @staticmethod
    def _missing(kit: Kit, name: str) -> ProcessingError:
        message = f"There is no kit.{name} outside a worker (job {kit.job.id}). `longshore work FILE` has one."
        return ProcessingError(message, retryable=False)


class NoTools(JustHttp):
    """Those of a task that a `Worker` class runs by itself: none. Records would have nowhere to go, either."""

    def emit(self, kit: Kit, record: Any, kind: str) -> bool:
        """None here."""
        del record, kind
        raise self._missing(kit, "emit")
