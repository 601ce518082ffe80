"""Tools for tests of your own handlers: run one on a job in memory, without a queue, a worker or a network.

from longshore.testing import Completed, run_handler

def test_the_title_is_found():
    outcome = run_handler(page, {"url": "https://example.org/"}, http={"https://example.org/": "<title>Hi</title>"})
    assert outcome == Completed({"title": "Hi"})
    assert outcome.requested == ["https://example.org/"]
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from longshore.clock import Clock, ManualClock, SystemClock
from longshore.errors import ProcessingError, TimedOutError, UnknownKindError
from longshore.handlers.class_handler import class_handlers
from longshore.handlers.handler import Handler
from longshore.handlers.kit import AsyncKit, JustHttp, SyncKit
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.handlers.worker_class import Worker
from longshore.job import DEFAULT_MAX_ATTEMPTS, Job, State, new_job
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Snoozed
from longshore.scrape.http.client import Http, Response, SyncHttp
from longshore.scrape.http.request import Request
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.records import Emission, Emitted
from longshore.stored import Json, JsonObject
from longshore.system.first_of import first_of
from longshore.url import mask_url

__all__ = [
    "Completed",
    "Failed",
    "FakeHttp",
    "ManualClock",
    "MemoryQueue",
    "Snoozed",
    "make_job",
    "run_handler",
]

_BOUND = ("worker_id", "job_id", "kind")
"""The values that every line of a kit's log has."""

Page = str | bytes | int | JsonObject | list[Json] | Response | Exception
"""A fake page: text, bytes, a status, a value sent as JSON, a complete `Response`, or an error to raise."""
Pages = Mapping[str, Page] | Callable[[str], Page]


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """The traces that an attempt left besides its outcome."""

    emitted: tuple[tuple[str, JsonObject], ...] = ()
    """The kind and the fields of each record; none if the attempt did not complete, because they would be dropped."""
    logged: list[JsonObject] = []
    """The lines of `kit.log`: `level`, `event` and the values that were given."""
    requested: list[str] = []
    """The URLs that `kit.http` was asked for, in order."""


class _Traced:
    """The members of an outcome that show its traces. They do not count when outcomes are compared."""

    traces: Traces

    @property
    def records(self) -> list[JsonObject]:
        """The records that the handler emitted, of all kinds, as they would be stored."""
        return [record for _, record in self.traces.emitted]

    def records_of(self, kind: str) -> list[JsonObject]:
        """Return the emitted records of one kind."""
        return [record for name, record in self.traces.emitted if name == kind]

    @property
    def logged(self) -> list[JsonObject]:
        """The lines of `kit.log`: `level`, `event` and the values that were given."""
        return self.traces.logged

    @property
    def requested(self) -> list[str]:
        """The URLs that `kit.http` was asked for, in order."""
        return self.traces.requested


class TracedCompleted(Completed, _Traced, frozen=True, eq=False, tag="completed"):
    """A success, with what the attempt emitted, logged and requested. It equals a `Completed` of the same values."""

    traces: Traces = Traces()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Completed) and (self.result, self.jobs) == (other.result, other.jobs)

    __hash__ = None  # type: ignore[assignment]  # a result may be a dict


class TracedFailed(Failed, _Traced, frozen=True, eq=False, tag="failed"):
    """A failure, with what the attempt logged and requested. It equals a `Failed` of the same values."""

    traces: Traces = Traces()

    def __eq__(self, other: object) -> bool:
        same = ("failure", "retry_in", "max_attempts")
        return isinstance(other, Failed) and all(getattr(self, name) == getattr(other, name) for name in same)

    __hash__ = None  # type: ignore[assignment]  # as above


class TracedSnoozed(Snoozed, _Traced, frozen=True, eq=False, tag="snoozed"):
    """A postponement, with what the attempt logged and requested. It equals a `Snoozed` of the same delay."""

    traces: Traces = Traces()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snoozed) and self.delay == other.delay

    __hash__ = None  # type: ignore[assignment]  # as above


TracedOutcome = TracedCompleted | TracedFailed | TracedSnoozed


class FakeHttp(Http):
    """An HTTP client that answers from a dict of pages by URL, or from a function of the URL; never from the network.

    A URL that is not in the dict fails the attempt with a message. `asked` lists the requested URLs in order. There are
    no retries, and no robots.txt is requested.
    """

    def __init__(self, pages: Pages | None = None) -> None:
        self.asked: list[str] = []
        super().__init__(transport=_Pages({} if pages is None else pages, self.asked), retries=0, robots=False)


class _Pages:
    """The transport that replaces the network."""

    def __init__(self, pages: Pages, asked: list[str]) -> None:
        self._pages = pages
        self._asked = asked

    async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
        del proxy, total
        url = request.url
        self._asked.append(url)
        page = self._pages(url) if callable(self._pages) else self._pages.get(url)
        match page:
            case None:
                raise ProcessingError(
                    f"The test has no page for {mask_url(url)}. Give it one: run_handler(..., http={{url: body}}).",
                    retryable=False,
                )
            case Exception():
                raise page
            case Response():
                return page
            case int():
                return Response(url=url, status=page)
            case str():
                return Response(url=url, body=page.encode())
            case bytes():
                return Response(url=url, body=page)
            case _:
                return Response(url=url, body=msgspec.json.encode(page))

    async def close(self) -> None:
        pass


def make_job(
    payload: JsonObject | None = None,
    *,
    kind: str = "test",
    run: str = "test",
    attempt: int = 1,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    clock: Clock | None = None,
) -> Job:
    """Return a claimed job as a handler receives it; the payload is converted to JSON and back, as every queue does."""
    new = new_job(kind, msgspec.json.decode(msgspec.json.encode(payload or {})), run=run)
    return Job(
        id="1",
        run=new.run,
        kind=new.kind,
        key=new.key,
        payload=new.payload,
        host=new.host,
        state=State.CLAIMED,
        epoch=attempt,
        attempts=attempt - 1,
        max_attempts=max_attempts,
        submitted_at=(clock or SystemClock()).now(),
        worker="test",
    )


def run_handler(
    handler: Handler | type[Worker],
    payload: JsonObject | None = None,
    *,
    kind: str | None = None,
    attempt: int = 1,
    http: Pages | None = None,
    clock: Clock | None = None,
) -> TracedOutcome:
    """Run one attempt and return its outcome, with the result decoded from JSON.

    The outcome also has the `records` that the handler emitted, the lines that it `logged` and the URLs that it
    `requested`; these do not count when it is compared with `Completed(…)`, `Failed(…)` or `Snoozed(…)`.

    Takes plain and async handlers and `Worker` classes, and may be called from plain and async tests. The kit is a real
    one, but `kit.http` answers from `http`. With a `ManualClock`, the attempt times out when that clock passes the
    handler's timeout: a fake page may advance it. A class with several kinds needs `kind`.
    """
    chosen = handler if isinstance(handler, Handler) else _of_class(handler, kind)
    time = clock or SystemClock()
    job = make_job(payload, kind=kind or chosen.kind, attempt=attempt, clock=time)
    return _without_loop(lambda: _attempt(chosen, job, FakeHttp(http), time))


def _without_loop(function: Callable[[], TracedOutcome]) -> TracedOutcome:
    """Call `function` without a running event loop, as a worker does: here, or for an async test in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, function).result()


def _attempt(handler: Handler, job: Job, http: FakeHttp, clock: Clock) -> TracedOutcome:
    emission, logged = Emission(handler.emits, handler.keep), list[JsonObject]()
    log = _noted_log(logged)
    try:
        if handler.is_async:
            kit = AsyncKit(log, JustHttp(http), job, handler)
            kit.emission = emission
            value = asyncio.run(_in_time(handler, job, kit, clock))
        else:
            value = _plain(handler, job, log, http, clock, emission)
        outcome = outcome_of(handler, job, value)
    except Exception as error:  # noqa: BLE001 (any error of the handler becomes its outcome)
        outcome = outcome_of_error(handler, job, error)
    return _traced(outcome, emission, logged, http.asked)


def _traced(outcome: Outcome, emission: Emission, logged: list[JsonObject], requested: list[str]) -> TracedOutcome:
    traces = Traces(logged=logged, requested=requested)
    match outcome:
        case Completed(result=result, jobs=jobs):
            emitted = emission.emitted() or Emitted()
            kept = tuple((record.kind, msgspec.json.decode(record.data)) for record in emitted.records)
            decoded = msgspec.json.decode(msgspec.json.encode(result))
            return TracedCompleted(decoded, jobs, msgspec.structs.replace(traces, emitted=kept))
        case Failed(failure=failure, retry_in=retry_in, max_attempts=max_attempts):
            return TracedFailed(failure, retry_in, max_attempts, traces)
        case Snoozed(delay=delay):
            return TracedSnoozed(delay, traces)
    raise AssertionError(f"a handler cannot end with {outcome}")


def _noted_log(logged: list[JsonObject]) -> FilteringBoundLogger:
    """Return the log of an attempt, which also adds its lines to `logged`."""

    def note(_logger: object, level: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        own = {name: value for name, value in entry.items() if name not in _BOUND}
        logged.append({"level": level, **own})
        return entry

    usual = structlog.get_config()
    bound: FilteringBoundLogger = structlog.wrap_logger(
        usual["logger_factory"](), processors=[note, *usual["processors"]], wrapper_class=usual["wrapper_class"]
    )
    return bound.bind(worker_id="test")


async def _in_time(handler: Handler, job: Job, kit: AsyncKit, clock: Clock) -> object:
    # The limit first: its sleep must begin before the handler can advance a manual clock.
    limit = asyncio.ensure_future(clock.sleep(handler.timeout.total_seconds()))
    work = asyncio.ensure_future(handler.invoke(job, kit))
    await first_of(limit, work)
    # Both may be done: a page that advances the clock past the timeout also answers at once.
    if not limit.cancelled():
        raise _timed_out(handler)
    return work.result()


def _plain(
    handler: Handler, job: Job, log: FilteringBoundLogger, http: FakeHttp, clock: Clock, emission: Emission
) -> object:
    fetch = SyncHttp(http)
    started = clock.monotonic()
    try:
        kit = SyncKit(log, JustHttp(fetch), job, handler)
        kit.emission = emission
        value = handler.invoke(job, kit)
    finally:
        fetch.close()
    # A worker kills the process at the timeout; here the duration can only be checked after the handler returned.
    if clock.monotonic() - started > handler.timeout.total_seconds():
        raise _timed_out(handler)
    return value


def _timed_out(handler: Handler) -> TimedOutError:
    return TimedOutError(f"It took longer than {handler.timeout.total_seconds():g} seconds")


def _of_class(worker: type[Worker], kind: str | None) -> Handler:
    handlers = class_handlers(worker)
    if kind is None and len(handlers) == 1:
        return next(iter(handlers.values()))
    if kind is None or kind not in handlers:
        raise UnknownKindError(
            f"{worker.__name__} handles {', '.join(handlers) or 'no kinds'}. Name one: run_handler(..., kind=...)."
        )
    return handlers[kind]
