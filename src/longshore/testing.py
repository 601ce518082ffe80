"""Tools for tests of your own handlers: run one on a job in memory, without a queue, a worker or a network.

from longshore.testing import Completed, run_handler

def test_the_title_is_found():
    outcome = run_handler(page, {"url": "https://example.org/"}, http={"https://example.org/": "<title>Hi</title>"})
    assert outcome == Completed({"title": "Hi"})
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from longshore.clock import Clock, ManualClock, SystemClock
from longshore.errors import ProcessingError, TimedOutError, UnknownKindError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import AsyncKit, JustHttp, SyncKit
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.handlers.worker_class import Worker, class_handlers
from longshore.job import DEFAULT_MAX_ATTEMPTS, Job, State, new_job
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Snoozed
from longshore.scrape.http.client import Http, Response, SyncHttp
from longshore.scrape.http.request import Request
from longshore.scrape.proxies.proxy_file import Proxy
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

Page = str | bytes | int | JsonObject | list[Json] | Response | Exception
"""A fake page: text, bytes, a status, a value sent as JSON, a complete `Response`, or an error to raise."""
Pages = Mapping[str, Page] | Callable[[str], Page]


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
) -> Outcome:
    """Run one attempt and return its outcome, with the result decoded from JSON.

    Takes plain and async handlers and `Worker` classes, and may be called from plain and async tests. The kit is a real
    one, but `kit.http` answers from `http`. With a `ManualClock`, the attempt times out when that clock passes the
    handler's timeout: a fake page may advance it. A class with several kinds needs `kind`.
    """
    chosen = handler if isinstance(handler, Handler) else _of_class(handler, kind)
    time = clock or SystemClock()
    job = make_job(payload, kind=kind or chosen.kind, attempt=attempt, clock=time)
    outcome = _without_loop(lambda: _attempt(chosen, job, FakeHttp(http), time))
    if isinstance(outcome, Completed):
        return Completed(msgspec.json.decode(msgspec.json.encode(outcome.result)), outcome.jobs)
    return outcome


def _without_loop(function: Callable[[], Outcome]) -> Outcome:
    """Call `function` without a running event loop, as a worker does: here, or for an async test in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, function).result()


def _attempt(handler: Handler, job: Job, http: FakeHttp, clock: Clock) -> Outcome:
    log = structlog.get_logger().bind(worker_id="test")
    try:
        if handler.is_async:
            value = asyncio.run(_in_time(handler, job, AsyncKit(log, JustHttp(http), job), clock))
        else:
            value = _plain(handler, job, log, http, clock)
    except Exception as error:  # noqa: BLE001 (any error of the handler becomes its outcome)
        return outcome_of_error(handler, job, error)
    return outcome_of(handler, job, value)


async def _in_time(handler: Handler, job: Job, kit: AsyncKit, clock: Clock) -> object:
    # The limit first: its sleep must begin before the handler can advance a manual clock.
    limit = asyncio.ensure_future(clock.sleep(handler.timeout.total_seconds()))
    work = asyncio.ensure_future(handler.invoke(job, kit))
    await first_of(limit, work)
    # Both may be done: a page that advances the clock past the timeout also answers at once.
    if not limit.cancelled():
        raise _timed_out(handler)
    return work.result()


def _plain(handler: Handler, job: Job, log: FilteringBoundLogger, http: FakeHttp, clock: Clock) -> object:
    fetch = SyncHttp(http)
    started = clock.monotonic()
    try:
        value = handler.invoke(job, SyncKit(log, JustHttp(fetch), job))
    finally:
        fetch.close()
    # A worker kills the process at the timeout; here the duration can only be checked after the handler returned.
    if clock.monotonic() - started > handler.timeout.total_seconds():
        raise _timed_out(handler)
    return value


def _timed_out(handler: Handler) -> TimedOutError:
    return TimedOutError(f"It took longer than {handler.timeout.total_seconds():g} seconds")


def _of_class(worker: type[Worker], kind: str | None) -> Handler:
    handlers = class_handlers(worker, worker.for_command_line)
    if kind is None and len(handlers) == 1:
        return next(iter(handlers.values()))
    if kind is None or kind not in handlers:
        raise UnknownKindError(
            f"{worker.__name__} handles {', '.join(handlers) or 'no kinds'}. Name one: run_handler(..., kind=...)."
        )
    return handlers[kind]
