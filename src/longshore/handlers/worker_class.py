"""Work written as a class: override `process_task`, then call `run`, or give the file to `longshore work`.

    class Filings(Worker):
        kinds = ("filing",)

        def process_task(self, task):
            return {"pages": len(task["params"]["text"])}

    sys.exit(Filings("sqlite:///queue.db").run())

`run` claims one task at a time and handles it in this process and thread. Leases are renewed by a thread of their own.
At its timeout `process_task` is ended; see `time_limit` for how, and for what happens if it cannot be ended.

Why `run` has a claim loop of its own: docs/decisions/0011-the-worker-class-has-a-loop.md.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import psutil
import structlog

from longshore.errors import (
    LongshoreError,
    PassingQueueError,
    ProcessingError,
    QueueError,
    QueueUnavailableError,
    TimedOutError,
    UsageError,
)
from longshore.extensions.worker_orders import WorkerOrder
from longshore.handlers.class_handler import class_handler, kinds_of
from longshore.handlers.handler import DEFAULT_BACKOFF, DEFAULT_TIMEOUT, Handler
from longshore.handlers.kit import AsyncKit, NoTools, SyncKit
from longshore.handlers.lease_keeper import LeaseKeeper
from longshore.handlers.result import Snooze, failed_outcome, outcome_of, outcome_of_error
from longshore.handlers.stop_signals import stopped_by_signals
from longshore.handlers.task import ErrorText, Stats, Task
from longshore.handlers.time_limit import TimeLimit
from longshore.handlers.worker_options import WorkerOptions, completed, resolved
from longshore.job import Job
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.observe.failure_fields import fields_of
from longshore.observe.logs import configure
from longshore.observe.statistics import final_statistics
from longshore.outcome import Completed, Failed, Outcome, Snoozed
from longshore.queue import Queue
from longshore.settings import export_dotenv
from longshore.stored import Json
from longshore.url import mask_url

if TYPE_CHECKING:
    from pydantic import BaseModel
    from structlog.typing import FilteringBoundLogger

__all__ = ["Stats", "Task", "Worker"]

TaskOrId: TypeAlias = Any
"""A task, or its id. An override names the one that it was written for."""
ErrorOrText: TypeAlias = Any
"""An exception, or its message; see `TaskOrId`."""

_BLOCKED_SECONDS = 1.0
"""How long after its timeout an async `process_task` may still run before it is ended like a plain one."""
_STUCK = 3
"""The exit code of a worker that had to end because of a task that could not be ended, as for `longshore work`."""


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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = vars(cls).get("run")
        if inspect.isfunction(own):
            cls.run = _closing(own)  # type: ignore[method-assign, assignment]

    def __init__(
        self, api_url: str | None = None, worker_id: str | None = None, config: Mapping[str, Json] | None = None
    ) -> None:
        """`api_url` is the URL of any queue; nothing is opened yet.

        `config` may hold `poll_interval` (seconds to wait when there is no work, 10), `max_runs` (tasks until it stops,
        0 for no limit), `lease_seconds` (300), `debug`, `api_key` (of a queue over HTTP), and entries of your own. All
        others come from the environment, `.env` or `longshore.toml`, as for the commands. Raises `SettingsError`.
        """
        given = dict(config or {})
        self._settings = resolved(api_url, worker_id, given)
        export_dotenv()
        self.api_url = "" if api_url == "" else self._settings.queue
        self._config = completed(given, self._settings)
        self._worker = WorkerId.new(self._settings.worker_id)
        self.worker_id = self._worker.label
        self._keeper: LeaseKeeper | None = None
        self._leases: dict[str, tuple[Lease, float]] = {}
        """The held leases by task id, each with the time of its claim."""
        self._claimed: Mapping[str, Json] = {}
        """The task that `run` handles now, as `claim_task` returned it."""
        self._handlers: dict[str, Handler] = {}
        self._stop = threading.Event()
        self._loop: asyncio.Runner | None = None
        self._born = time.monotonic()
        self._stats = Stats()

    def process_task(self, task: Task[Any]) -> object:
        """Do the work of one task; override it, as a plain or an async method.

        It may return and raise the same as a handler function.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process_task(self, task)")

    def health_check(self) -> bool:
        """Return whether work can begin: by default, whether the queue answers. Asked before the first claim.

        `longshore work` asks only an overridden one: it waits for its queue itself. It asks it again every minute, in
        another thread than tasks are processed in, for its own health (`longshore health`).
        """
        try:
            self._open().ping()
        except LongshoreError as error:
            self.log.error("The queue does not answer", error=str(error))  # noqa: TRY400 (the message says it all)
            return False
        return True

    def claim_task(self) -> Task | None:
        """Claim the next task; None if there is none now. Tasks of paused runs are skipped.

        Also brings back tasks of dead workers. The lease of the task is renewed until it is settled.
        """
        lease = self._open().claim()
        if lease is None:
            return None
        self._stats.claimed += 1
        self._leases[lease.job.id] = (lease, time.monotonic())
        return Task(lease.job.id, lease.job.kind, lease.job.payload)

    def complete_task(self, task_id: TaskOrId, result: Json) -> bool | None:
        """Settle a task with the result of `process_task`; a result with `success: false` is a failure.

        Returns False if the lease was lost: nothing is written. `run` calls it with the id of the task.
        """
        job = self._held(task_id).job
        return self._settle(job.id, outcome_of(self._handler(job.kind), job, result))

    def fail_task(self, task_id: TaskOrId, error: ErrorOrText) -> bool | None:
        """Settle a task as failed; it is tried again if the error is retryable and attempts are left.

        Returns False if the lease was lost and nothing was written. `run` calls it with the id and the message.
        """
        job = self._held(task_id).job
        handler = self._handler(job.kind)
        if isinstance(error, ErrorText):
            return self._settle(job.id, failed_outcome(handler, job, error.failure))
        raised = error if isinstance(error, BaseException) else ProcessingError(str(error))
        return self._settle(job.id, outcome_of_error(handler, job, raised))

    def lost_lease(self, task_id: TaskOrId) -> bool:
        """Return whether the task was cancelled or went to another worker: its settlement would be refused."""
        return self._open().lost(self._held(task_id))

    def run(self) -> int:
        """Work until `should_stop`, `max_runs` or a signal. Returns the exit code.

        0 after a normal stop, 1 if the health check fails or the queue cannot be used any more. The first SIGINT or
        SIGTERM lets the present task finish; a second one has its default effect. If a task cannot be ended at its
        timeout, the process ends with code 3.
        """
        self.configure_log()
        self.log.info(f"Worker {self._worker.label} initialized", queue=mask_url(self.api_url))
        try:
            if not self.healthy():
                self.log.error("STOPPING: the health check failed")
                return 1
            with stopped_by_signals(self._ask_to_stop):
                reason = self._work()
        except LongshoreError as error:
            told = "the queue is lost" if isinstance(error, QueueError) else "the queue refuses this worker"
            self.log.error(f"STOPPING: {told}", error=str(error))  # noqa: TRY400 (the message says it all)
            self._log_final()
            return 1
        finally:
            self.close()
        self.log.info(f"STOPPING: {reason}")
        self._log_final()
        return 0

    def configure_log(self) -> None:
        """Send the log lines of this process to standard error, unless the program has configured its logs."""
        if not structlog.is_configured():
            level = "debug" if self._settings.debug else "info"
            configure(format=self._settings.log_format, level=level)  # type: ignore[arg-type]  # checked when resolved

    def healthy(self) -> bool:
        """Return what `health_check` returns; False if it raises an error, which is logged."""
        try:
            return bool(self.health_check())
        except Exception:  # an overridden health check may raise anything, and has then failed
            self.log.exception("The health check raised an error")
            return False

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
        return logger.bind(worker_id=self._worker.label)

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
    def config(self) -> WorkerOptions:
        """The given configuration, completed by the settings: `config["poll_interval"]` or `config.poll_interval`."""
        return self._config

    @config.setter
    def config(self, value: Mapping[str, Json]) -> None:
        self._config = completed(value, self._settings)

    @property
    def stats(self) -> Stats:
        """The counts up to now: `stats["processed"]` and `stats["failed"]`, and more as attributes."""
        self._stats.uptime = time.monotonic() - self._born
        return self._stats

    @stats.setter
    def stats(self, value: Mapping[str, int]) -> None:
        own = dict(value)
        self._stats.clear()
        self._stats.update({"processed": 0, "failed": 0} | own)

    async def open_queue(self) -> Queue:
        """Open the queue at `api_url`. Override it to work on another queue, as tests do."""
        return await open_queue(self.api_url, api_key=self._settings.api_key)

    def task_of(self, job: Job, kit: SyncKit | AsyncKit, params: Json) -> Task:
        """Return a job as the task that `process_task` gets."""
        task = Task(job.id, job.kind, params, kit)
        # A `claim_task` of the user's own may have put more into it.
        task.update((name, value) for name, value in self._claimed.items() if name != "params")
        return task

    def _open(self) -> LeaseKeeper:
        if self._keeper is None:
            kinds = None if self.kinds is None else kinds_of(self)
            want = Want(worker=self._worker, lease=timedelta(seconds=self._settings.lease_seconds), kinds=kinds)
            self._keeper = LeaseKeeper(self.open_queue(), want, self.log, self._obey)
        return self._keeper

    def _ask_to_stop(self) -> None:
        self.should_stop = True

    def _obey(self, order: WorkerOrder) -> None:
        # The task under way runs in this process, so both orders let it finish.
        self.log.info(f"Asked to {order}")
        self.should_stop = True

    def _work(self) -> str:
        """Work until there is a reason to stop, and return that."""
        handled, lost_at, lease_seconds = 0, math.inf, self._settings.lease_seconds
        poll = timedelta(seconds=self._settings.poll_interval)
        while not self.should_stop:
            try:
                task = self.claim_task()
                lost_at = math.inf
                if not task:
                    self.log.info("No work available")
                    self._wait(poll)
                    continue
            except PassingQueueError as error:
                # Trouble that may need a person is waited for as long as a lease lasts.
                lost_at = min(lost_at, time.monotonic() + lease_seconds)
                if not isinstance(error, QueueUnavailableError) and time.monotonic() >= lost_at:
                    raise
                self.log.warning("The queue does not answer; looking again soon", error=str(error))
                self._stop.wait(poll.total_seconds())
                continue
            except LongshoreError:
                raise
            except Exception:  # an overridden method may raise anything
                self.log.exception("claim_task raised an error; looking again soon")
                self._stop.wait(poll.total_seconds())
                continue
            self._attempt(task)
            handled += 1
            if handled == self._settings.max_work:
                return f"max_runs reached ({handled})"
        return "asked to stop"

    def _wait(self, poll: timedelta) -> None:
        # A `claim_task` of the user's own may know its tasks from elsewhere: then there is no queue here to wait for.
        if self._keeper is None:
            self._stop.wait(poll.total_seconds())
        else:
            self._keeper.wait(poll)

    def _log_final(self) -> None:
        stats = self.stats
        summary = final_statistics(
            completed=stats.completed,
            failed=stats.failed - stats.retried,
            retried=stats.retried,
            seconds=stats.uptime,
        )
        self.log.info(f"Final statistics: {summary}")

    def _attempt(self, task: Mapping[str, Json]) -> None:
        """Handle one task. It may come from a `claim_task` of the user's own: then it has no lease here."""
        task_id, kind = str(task["id"]), str(task["type"])
        self.log.info("Claimed work", job_id=task_id, kind=kind)
        held = self._leases.get(task_id)
        params = task.get("params") or {}
        job = Job(id=task_id, run="", kind=kind, key="", payload=params) if held is None else held[0].job
        handler = self._handler(kind)
        kit = (AsyncKit if handler.is_async else SyncKit)(self.log, NoTools(), job)
        self._claimed = task
        try:
            value = self._call(handler, job, kit)
            outcome = outcome_of(handler, job, value)
        except Exception as error:  # noqa: BLE001 (anything the task raises is its outcome)
            value, outcome = error, outcome_of_error(handler, job, error)
            if isinstance(outcome, Completed):
                value = {"skipped": str(error)}
        finally:
            self._claimed = {}
        if held is not None and task_id not in self._leases:
            return  # `process_task` has settled it itself
        try:
            self._conclude(task_id, value, outcome)
        except LongshoreError:
            raise
        except Exception as error:  # an overridden method may raise anything
            self.log.exception("The outcome of the task could not be written", job_id=task_id)
            if task_id in self._leases:
                Worker.fail_task(self, task_id, error)

    def _conclude(self, task_id: str, value: Json, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self.log.warning("Failed work", job_id=task_id, **fields_of(outcome.failure))
            if self.fail_task(task_id, ErrorText.of(outcome.failure)) is not False:
                self._stats["failed"] = self._stats.get("failed", 0) + 1
        elif isinstance(outcome, Snoozed):
            if self.complete_task(task_id, Snooze(outcome.delay.total_seconds())) is not False:
                self.log.info("Postponed work", job_id=task_id, seconds=outcome.delay.total_seconds())
        elif self.complete_task(task_id, value) is not False:
            self._stats["processed"] = self._stats.get("processed", 0) + 1
            self.log.info("Completed work", job_id=task_id)

    def _call(self, handler: Handler, job: Job, kit: SyncKit | AsyncKit) -> object:
        """Call `process_task`, and end it at its timeout."""

        def call() -> object:
            value = handler.invoke(job, kit)
            return self._finish(value, handler.timeout) if handler.is_async else value

        seconds, error = handler.timeout.total_seconds(), _timed_out(handler.timeout)
        blocked = seconds + _BLOCKED_SECONDS if handler.is_async else seconds
        limit = TimeLimit(blocked, error, lambda: self._end_process(handler, job, error, limit))
        try:
            return limit.run(call)
        finally:
            if limit.expired and self._loop is not None:
                loop, self._loop = self._loop, None
                with suppress(RuntimeError):
                    loop.close()

    def _end_process(self, handler: Handler, job: Job, error: TimedOutError, limit: TimeLimit) -> None:
        """Settle the task that cannot be ended, give back all others, and end the process with all that it started."""
        self.log.error("STOPPING: process_task did not end at its timeout, and only its process can be", job_id=job.id)
        try:
            self._conclude(job.id, error, outcome_of_error(handler, job, error))
            self._log_final()
            keeper = self._keeper
            if keeper is not None:
                keeper.close()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                # Directly before the end, so that the task can hardly start another one.
                with suppress(psutil.Error):
                    limit.kill_processes()
                os._exit(_STUCK)

    def _finish(self, value: Awaitable[object], timeout: timedelta) -> object:
        """Await an async `process_task`. All share one event loop, so that a task can use what another one opened."""

        async def bounded() -> object:
            try:
                async with asyncio.timeout(timeout.total_seconds()) as limit:
                    return await value
            except TimeoutError:
                if not limit.expired():
                    raise
                raise _timed_out(timeout) from None

        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(bounded())

    def _held(self, task: TaskOrId) -> Lease:
        task_id = str(task["id"] if isinstance(task, Mapping) else task)
        found = self._leases.get(task_id)
        if found is None:
            raise UsageError(f"Task {task_id} is not held by this worker: it was already settled, or never claimed.")
        return found[0]

    def _settle(self, task_id: str, outcome: Outcome) -> bool:
        lease, started = self._leases[task_id]
        seconds = time.monotonic() - started
        written = self._open().settle(lease, outcome, seconds)
        del self._leases[task_id]
        if written is None:
            self.log.warning("lost lease: the outcome of the task is discarded", job_id=task_id)
            return False
        stats = self._stats
        stats.busy_seconds += seconds
        if isinstance(written, Completed):
            stats.completed += 1
            stats.errors_in_a_row = 0
        if isinstance(written, Failed):
            stats.failed += 1
            stats.errors_in_a_row += 1
            limit = written.max_attempts or lease.job.max_attempts
            stats.retried += written.failure.retryable and lease.job.attempt < limit
        return True

    def _handler(self, kind: str) -> Handler:
        if kind not in self._handlers:
            self._handlers[kind] = class_handler(type(self), kind, lambda: self)
        return self._handlers[kind]


def _timed_out(timeout: timedelta) -> TimedOutError:
    return TimedOutError(f"It took longer than {timeout.total_seconds():g} seconds")


def _closing(run: Callable[[Worker], int]) -> Callable[[Worker], int]:
    """Return a `run` of the user's own that gives back the tasks which it leaves, and closes the queue."""

    @functools.wraps(run)
    def closing(self: Worker) -> int:
        self.configure_log()
        try:
            return run(self)
        finally:
            self.close()

    return closing
