"""Work written as a class: override `process_task`, then call `run`, or give the file to `longshore work`.

    class Filings(Worker):
        kinds = ("filing",)

        def process_task(self, task):
            return {"pages": len(task.params["text"])}

    sys.exit(Filings("sqlite:///queue.db").run())

`run` claims one task at a time and handles it in this process. Leases are renewed by a thread of their own, so
`process_task` may take as long as it likes.

About `timeout`: `run` ends an async `process_task` at its timeout. It cannot end a plain one, because a process cannot
end one of its own functions. `longshore work` runs a plain one in a child process, which it kills at the timeout.

Why `run` has a claim loop of its own: docs/decisions/0011-the-worker-class-has-a-loop.md.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec
import structlog

from longshore.errors import (
    Failure,
    LongshoreError,
    PassingQueueError,
    ProcessingError,
    QueueError,
    QueueUnavailableError,
    SettingsError,
    TimedOutError,
    UsageError,
)
from longshore.handlers.handler import DEFAULT_BACKOFF, DEFAULT_TIMEOUT, AttemptLimits, Handler, Returned
from longshore.handlers.kit import AsyncKit, Kit, NoTools, SyncKit
from longshore.handlers.lease_keeper import LeaseKeeper
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import Job
from longshore.lease import DEFAULT_LEASE, Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.observe.failure_fields import fields_of
from longshore.observe.logs import configure
from longshore.observe.statistics import final_statistics
from longshore.outcome import Completed, Failed, Outcome
from longshore.queue import Queue
from longshore.settings import TABLE
from longshore.stored import Json
from longshore.url import mask_url

if TYPE_CHECKING:
    import typing_extensions
    from pydantic import BaseModel
    from structlog.typing import FilteringBoundLogger

    # With a default, so that `Task` alone is any task; `typing` has it from Python 3.13 on.
    KitT_co = typing_extensions.TypeVar("KitT_co", bound=Kit, covariant=True, default=Kit)
else:
    KitT_co = TypeVar("KitT_co", covariant=True)


class Task(msgspec.Struct, Generic[KitT_co], frozen=True):
    """A job as a `Worker` class sees it: a `Task[AsyncKit]` if `process_task` is async, otherwise a `Task[SyncKit]`."""

    id: str
    type: str
    """The job's kind."""
    params: Json
    """The job's payload, or the model the class declares in `params`."""
    _kit: KitT_co | None = None

    @property
    def kit(self) -> KitT_co:
        """The tools of a handler, such as `task.kit.http`. Under `longshore work`; `run` has none but `kit.log`.

        Raises `UsageError` for a task that did not come to `process_task` from either of them.
        """
        if self._kit is None:
            raise UsageError(f"Task {self.id} has no kit. Only `run` and `longshore work` give a task its kit.")
        return self._kit


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a worker since it was made. Times are in seconds."""

    claimed: int
    completed: int
    failed: int
    """Attempts that failed, whether the task will be tried again or not."""
    success_rate: float
    """The share of completed attempts among those that completed or failed, from 0 to 1; 0 before the first."""
    uptime: float
    average_processing_time: float


class Worker:
    """One worker in one process. The module describes how a timeout works."""

    kinds: ClassVar[str | Collection[str] | None] = None
    """The kinds of job it handles; None for all, which only `run` allows."""
    timeout: ClassVar[float | timedelta] = DEFAULT_TIMEOUT
    retries: ClassVar[int | None] = None
    backoff: ClassVar[float] = DEFAULT_BACKOFF
    params: ClassVar[type[BaseModel] | None] = None
    """A pydantic model the payload must satisfy; `task.params` is then such a model."""
    identity: ClassVar[Sequence[str] | None] = None
    """The payload fields that make two jobs different, for each of its kinds; None for the URL alone."""

    def __init__(self, api_url: str, worker_id: str | None = None, config: Mapping[str, object] | None = None) -> None:
        """`api_url` is the URL of any queue; nothing is opened yet.

        `config` may hold `poll_interval` (seconds to wait when there is no work, 10), `max_runs` (tasks until it stops,
        0 for no limit), `lease_seconds` (300), and entries of your own. Under `longshore work` the command claims the
        jobs: the class is then made with an empty `api_url`, and only `process_task` is called.
        """
        self.api_url = api_url
        self.config: dict[str, object] = dict(config or {})
        self.poll_interval = timedelta(seconds=_number(self.config, "poll_interval", 10))
        self.max_runs = int(_number(self.config, "max_runs", 0, setting="max_work"))
        self.lease = timedelta(seconds=_number(self.config, "lease_seconds", DEFAULT_LEASE.total_seconds()))
        self._worker = WorkerId.new(worker_id)
        self.worker_id = self._worker.label
        self._keeper: LeaseKeeper | None = None
        self._leases: dict[str, tuple[Lease, float]] = {}
        """The held leases by task id, each with the time of its claim."""
        self._handlers: dict[str, Handler] = {}
        self._stop = threading.Event()
        self._loop: asyncio.Runner | None = None
        self._born = time.monotonic()
        self._claimed = self._completed = self._failed = self._retried = 0
        self._busy_seconds = 0.0

    def process_task(self, task: Task[Any]) -> object:
        """Do the work of one task; override it, as a plain or an async method.

        It may return and raise the same as a handler function.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process_task(self, task)")

    def health_check(self) -> bool:
        """Return whether work can begin: by default, whether the queue answers. `run` asks once, before it claims."""
        try:
            self._open().ping()
        except LongshoreError as error:
            self.log.error("The queue does not answer", error=str(error))  # noqa: TRY400 (the message says it all)
            return False
        return True

    def claim_task(self) -> Task | None:
        """Claim the next task; None if there is none now. Tasks of paused runs are skipped.

        Also brings back tasks of dead workers.
        """
        lease = self._open().claim()
        if lease is None:
            return None
        self._claimed += 1
        self._leases[lease.job.id] = (lease, time.monotonic())
        return Task(lease.job.id, lease.job.kind, lease.job.payload)

    def complete_task(self, task: Task, result: object) -> bool:
        """Settle a task with the result of `process_task`. Returns False if the lease was lost: nothing is written."""
        job = self._held(task).job
        return self._settle(task, outcome_of(self._handler(job.kind), job, result))

    def fail_task(self, task: Task, error: BaseException | str) -> bool:
        """Settle a task as failed; it is tried again if the error is retryable and attempts are left.

        Returns False if the lease was lost and nothing was written.
        """
        job = self._held(task).job
        raised = ProcessingError(error) if isinstance(error, str) else error
        return self._settle(task, outcome_of_error(self._handler(job.kind), job, raised))

    def lost_lease(self, task: Task) -> bool:
        """Return whether the task was cancelled or went to another worker: its settlement would be refused."""
        return self._open().lost(self._held(task))

    def run(self) -> int:
        """Work until `should_stop`, `max_runs` or a signal. Returns the exit code.

        0 after a normal stop, 1 if the health check fails or the queue cannot be used any more. The first SIGINT or
        SIGTERM lets the present task finish; a second one has its default effect.
        """
        # A program that has configured its logs keeps its configuration.
        if not structlog.is_configured():
            configure()
        self.log.info(f"Worker {self.worker_id} initialized", queue=mask_url(self.api_url))
        try:
            if not self._healthy():
                self.log.error("STOPPING: the health check failed")
                return 1
            with self._stopped_by_signals():
                reason = self._work()
        except QueueError as error:
            self.log.error("STOPPING: the queue is lost", error=str(error))  # noqa: TRY400 (the message says it all)
            self._log_final()
            return 1
        finally:
            self.close()
        self.log.info(f"STOPPING: {reason}")
        self._log_final()
        return 0

    def close(self) -> None:
        """Give back the held tasks and close the queue. The next call that needs the queue opens it again."""
        keeper, self._keeper = self._keeper, None
        loop, self._loop = self._loop, None
        self._leases.clear()
        if loop is not None:
            loop.close()
        if keeper is not None:
            keeper.close()

    @property
    def log(self) -> FilteringBoundLogger:
        """A structlog logger whose lines carry the worker's id."""
        logger: FilteringBoundLogger = structlog.get_logger()
        return logger.bind(worker_id=self.worker_id)

    @property
    def should_stop(self) -> bool:
        """Set it, from any thread, to stop after the present task. `process_task` may read it, too."""
        return self._stop.is_set()

    @should_stop.setter
    def should_stop(self, value: bool) -> None:
        if not value:
            self._stop.clear()
            return
        self._stop.set()
        keeper = self._keeper
        if keeper is not None:
            keeper.wake()

    @property
    def stats(self) -> Stats:
        """The counts up to now."""
        settled = self._completed + self._failed
        return Stats(
            claimed=self._claimed,
            completed=self._completed,
            failed=self._failed,
            success_rate=self._completed / settled if settled else 0.0,
            uptime=time.monotonic() - self._born,
            average_processing_time=self._busy_seconds / settled if settled else 0.0,
        )

    @classmethod
    def for_command_line(cls) -> Worker:
        """Return the instance for `longshore work`: one in each process, made when its first task comes."""
        return cls("")

    async def open_queue(self) -> Queue:
        """Open the queue at `api_url`. Override it to work on another queue, as tests do."""
        return await open_queue(self.api_url)

    def _open(self) -> LeaseKeeper:
        if self._keeper is None:
            want = Want(worker=self._worker, lease=self.lease, kinds=None if self.kinds is None else _kinds(self))
            self._keeper = LeaseKeeper(self.open_queue(), want, self.log)
        return self._keeper

    def _healthy(self) -> bool:
        try:
            return self.health_check()
        except Exception:  # an overridden health check may raise anything, and has then failed
            self.log.exception("The health check raised an error")
            return False

    def _work(self) -> str:
        """Work until there is a reason to stop, and return that."""
        handled, lost_at = 0, math.inf
        while not self.should_stop:
            try:
                task = self.claim_task()
                lost_at = math.inf
                if task is None:
                    self.log.info("No work available")
                    self._open().wait(self.poll_interval)
                    continue
            except PassingQueueError as error:
                # Trouble that may need a person is waited for as long as a lease lasts.
                lost_at = min(lost_at, time.monotonic() + self.lease.total_seconds())
                if not isinstance(error, QueueUnavailableError) and time.monotonic() >= lost_at:
                    raise
                self.log.warning("The queue does not answer; looking again soon", error=str(error))
                self._stop.wait(self.poll_interval.total_seconds())
                continue
            self._attempt(task)
            handled += 1
            if handled == self.max_runs:
                return f"max_runs reached ({handled})"
        return "asked to stop"

    def _log_final(self) -> None:
        summary = final_statistics(
            completed=self._completed,
            failed=self._failed - self._retried,
            retried=self._retried,
            seconds=self.stats.uptime,
        )
        self.log.info(f"Final statistics: {summary}")

    def _attempt(self, task: Task) -> None:
        self.log.info("Claimed work", job_id=task.id, kind=task.type)
        job = self._held(task).job
        handler = self._handler(task.type)
        kit = (AsyncKit if handler.is_async else SyncKit)(self.log, NoTools(), job)
        try:
            value = handler.invoke(job, kit)
            if handler.is_async:
                value = self._finish(value, handler.timeout)
        except Exception as error:  # noqa: BLE001 (anything the task raises is its outcome)
            self.log.warning("Failed work", job_id=task.id, **fields_of(Failure.of(error)))
            self.fail_task(task, error)
        else:
            if self.complete_task(task, value):
                self.log.info("Completed work", job_id=task.id)

    def _finish(self, value: Awaitable[object], timeout: timedelta) -> object:
        """Await an async `process_task`. All share one event loop, so that a task can use what another one opened."""

        async def bounded() -> object:
            try:
                async with asyncio.timeout(timeout.total_seconds()) as limit:
                    return await value
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimedOutError(f"It took longer than {timeout.total_seconds():g} seconds") from None

        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(bounded())

    def _held(self, task: Task) -> Lease:
        found = self._leases.get(task.id)
        if found is None:
            raise UsageError(f"Task {task.id} is not held by this worker: it was already settled, or never claimed.")
        return found[0]

    def _settle(self, task: Task, outcome: Outcome) -> bool:
        lease, started = self._leases[task.id]
        seconds = time.monotonic() - started
        written = self._open().settle(lease, outcome, seconds)
        del self._leases[task.id]
        if written is None:
            self.log.warning("lost lease: the outcome of the task is discarded", job_id=task.id)
            return False
        self._busy_seconds += seconds
        self._completed += isinstance(written, Completed)
        if isinstance(written, Failed):
            self._failed += 1
            limit = written.max_attempts or lease.job.max_attempts
            self._retried += written.failure.retryable and lease.job.attempt < limit
        return True

    def _handler(self, kind: str) -> Handler:
        if kind not in self._handlers:
            self._handlers[kind] = _handler(type(self), kind, lambda: self)
        return self._handlers[kind]

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        # Only the main thread can set signal handlers.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for number, old in before.items():
                signal.signal(number, old)

        def stop(number: int, frame: FrameType | None) -> None:
            del number, frame
            restore()
            self.should_stop = True

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            restore()


def class_handlers(worker: type[Worker], make: Callable[[], Worker]) -> dict[str, Handler]:
    """Return a handler for each kind of the class. All share one instance, which `make` returns at the first task."""
    made = functools.cache(make)
    return {kind: _handler(worker, kind, made) for kind in sorted(_kinds(worker))}


def _handler(worker: type[Worker], kind: str, instance: Callable[[], Worker]) -> Handler:
    def process(job: Job, kit: Kit, params: Json) -> Returned:
        return instance().process_task(Task(job.id, job.kind, params, kit))

    async def process_async(job: Job, kit: Kit, params: Json) -> object:
        return await process(job, kit, params)

    async def process_async_bare(job: Job, kit: Kit) -> object:
        return await process(job, kit, job.payload)

    def process_bare(job: Job, kit: Kit) -> object:
        return process(job, kit, job.payload)

    function: Callable[..., object]
    if inspect.iscoroutinefunction(worker.process_task):
        function = process_async_bare if worker.params is None else process_async
    else:
        function = process_bare if worker.params is None else process
    function.__qualname__ = f"{worker.__qualname__}.process_task"
    handler = Handler(
        kind,
        function,
        limits=AttemptLimits(worker.timeout, worker.retries, worker.backoff),
        params=worker.params,
        identity=worker.identity,
    )
    if handler.identity is not None:
        handler.identities = dict.fromkeys({kind, *_kinds(worker)}, handler.identity)
    return handler


def _kinds(worker: Worker | type[Worker]) -> frozenset[str]:
    kinds = worker.kinds
    return frozenset({kinds} if isinstance(kinds, str) else kinds or ())


def _number(config: Mapping[str, object], name: str, default: float, *, setting: str = "") -> float:
    value, bounds = config.get(name, default), TABLE[setting or name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not bounds.holds(value):
        raise SettingsError(f"config['{name}'] is {value!r}. Give it {bounds.allowed}.")
    return float(value)
