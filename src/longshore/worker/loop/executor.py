"""An executor: makes attempts, one after another.

Executors live as long as the worker, because a task for each job would cost more than a quick job does. So does the
timer of each executor: it is set again only when it fires and another attempt has begun since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import structlog

from longshore.errors import CrashedError, Failure, ProcessingError, TimedOutError, WorkerError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import AsyncKit
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import Job
from longshore.lease import Lease
from longshore.observe.captured_prints import finish_prints
from longshore.observe.logs import enter_job
from longshore.observe.traces import active
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement
from longshore.worker.children.child_pool import ChildPool, ChildStartError
from longshore.worker.children.memory_watch import MemoryWatch, default_limit
from longshore.worker.kit.tools import WorkerTools
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.job_spacing import JobSpacing

# An attempt that swallows its cancellation is cancelled again this often.
_INSIST_SECONDS = 1.0
# Handlers that never wait would keep all other tasks from running; after this long the others get a turn.
_TURN_SECONDS = 0.01


class Interruption(Enum):
    """Why an attempt is ended from outside."""

    TIMEOUT = "it took too long"
    LOST = "its lease is lost"
    LEAVE = "the worker leaves at once"


class Executor:
    """Takes ready leases, makes the attempts, and hands the settlements on."""

    def __init__(
        self,
        leases: HeldLeases,
        handlers: Mapping[str, Handler],
        children: ChildPool,
        tools: WorkerTools,
        settle: Callable[[Settlement], None],
        spacing: JobSpacing,
        fail: Callable[[str], None],
        version: str,
    ) -> None:
        """`fail` stops the worker, with an error as its reason. `version` is that of the handler file."""
        self._leases = leases
        self._handlers = handlers
        self._children = children
        self._tools = tools
        self._settle = settle
        self._spacing = spacing
        self._fail = fail
        self.version = version
        self._log = structlog.get_logger()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self.started = 0.0
        """When the attempt under way began, by the event loop's clock."""
        self.lease: Lease | None = None
        """The lease of the attempt under way."""
        self.deadline: float | None = None
        """When the attempt must be over (`time.monotonic`)."""
        self.interruption: Interruption | None = None
        self.retired = False
        """Set from outside: take no more jobs."""

    async def run(self) -> None:
        """Make attempts until there will be no more leases, or until retired."""
        self._task = asyncio.current_task()
        leases, ready, now, spacing = self._leases, self._leases.ready, self._loop.time, self._spacing
        turn, traces = now(), active()
        while not self.retired:
            if not ready or len(ready) <= leases.low or spacing.pauses or leases.now() > leases.sure_until:
                lease = await (spacing.next(leases, self) if spacing.pauses else leases.next())
                if lease is None:
                    if leases.closed:
                        break
                    continue
                turn = now()
            else:
                lease = ready.popleft()
            self.started = now()
            outcome = await (self._attempt(lease) if traces is None else traces.attempt(lease, self._attempt))
            ended = now()
            if spacing.pauses:
                spacing.ended(leases)
            if outcome is not None:
                self._settle(self._settlement(lease, outcome, ended - self.started))
            if ended - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = now()
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self, why: Interruption) -> None:
        """End the attempt under way. Does nothing if there is none, or if it is being ended already."""
        if self.lease is not None and self.interruption is None and self._task is not None:
            self.interruption = why
            self._task.cancel()

    @property
    def handler(self) -> Handler | None:
        """The handler of the attempt under way."""
        lease = self.lease
        return None if lease is None else self._handlers[lease.job.kind]

    async def _attempt(self, lease: Lease) -> Outcome | None:
        """Return the outcome; None if the lease is lost, because the queue would refuse it."""
        job = lease.job
        handler = self._handlers[job.kind]
        if handler.retries is not None and job.attempt > handler.retries + 1:
            return _used_up(handler, job)
        self.lease = lease
        enter_job(job)
        kit: AsyncKit | None = None
        outcome: Outcome | None = None
        caught: BaseException | None = None
        try:
            if handler.is_async:
                self._arm(handler)
                kit = AsyncKit(self._log, self._tools, job, handler, self.deadline)
                value = await handler.invoke(job, kit)
                outcome = outcome_of(handler, job, value)
            else:
                outcome = await self._in_child(handler, job)
        except asyncio.CancelledError:
            if self.interruption is None:
                if self._task is not None and self._task.cancelling():
                    raise
                caught = ProcessingError("the attempt cancelled itself (asyncio.CancelledError)")
        except SystemExit as exit_:
            caught = CrashedError(f"the handler called sys.exit({exit_.code!r})")
        except BaseException as error:  # noqa: BLE001  anything a handler raises is its outcome, and is recorded as such
            caught = error
        finally:
            self.lease = None
            self.deadline = None
            finish_prints(job)
        interrupted = self.interruption is not None
        if interrupted:
            outcome, caught = self._interrupted(handler, job), None
        elif caught is not None:
            outcome = outcome_of_error(handler, job, caught)
        if kit is not None:
            self._tools.ended(kit, outcome, caught)
        elif interrupted and isinstance(outcome, Failed):
            self._tools.failed(job, handler, outcome, None)
        # Its traceback refers to this frame: the cycle would keep the attempt's objects, such as pages, alive for long.
        del caught
        return outcome

    def _settlement(self, lease: Lease, outcome: Outcome, seconds: float) -> Settlement:
        if isinstance(outcome, Completed):
            # Made at once: most outcomes are completions, and a copy would be checked a second time.
            return Settlement(lease, outcome, seconds, handler_version=self.version)
        return Settlement(lease, outcome, seconds).made_by(self.version)

    def _interrupted(self, handler: Handler, job: Job) -> Outcome | None:
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()
        why, self.interruption = self.interruption, None
        match why:
            case Interruption.TIMEOUT:
                return outcome_of_error(handler, job, timed_out(handler))
            case Interruption.LEAVE:
                return Released()
            case _:
                return None

    async def _in_child(self, handler: Handler, job: Job) -> Outcome:
        try:
            child = await self._children.take()
        except ChildStartError as error:
            self._fail(f"no child process can be started for plain handlers: {error}")
            return Released()
        # The timeout starts now: the time to import the handler file is not the job's.
        self.started = self._loop.time()
        self._arm(handler)
        watch = MemoryWatch(child, handler.memory or default_limit())
        try:
            outcome, records = await child.run(job)
        except BaseException as error:
            await self._children.end(child)
            if isinstance(error, WorkerError):
                return self._failed_in_child(handler, job, watch.fault or error)
            raise
        finally:
            watch.close()
        if watch.swollen:
            await self._children.end(child)
        else:
            self._children.put(child)
        self._tools.take_encoded(job, records)
        return outcome

    def _failed_in_child(self, handler: Handler, job: Job, error: WorkerError) -> Outcome:
        """Return the outcome of an attempt whose child process died or gave no outcome."""
        outcome = outcome_of_error(handler, job, error)
        if isinstance(outcome, Failed):
            self._tools.failed(job, handler, outcome, None)
        return outcome

    def _arm(self, handler: Handler) -> None:
        self.deadline = deadline = self.started + handler.timeout.total_seconds()
        timer = self._timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(deadline, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        deadline, handler = self.deadline, self.handler
        if deadline is None or handler is None:
            return
        if self._loop.time() < deadline:
            self._timer = self._loop.call_at(deadline, self._timer_fired)
        elif self.interruption is None:
            self.interrupt(Interruption.TIMEOUT)
            self._timer = self._loop.call_later(_INSIST_SECONDS, self._timer_fired)
        elif handler.is_async and self._task is not None:
            self._task.cancel()
            self._timer = self._loop.call_later(_INSIST_SECONDS, self._timer_fired)


def timed_out(handler: Handler) -> TimedOutError:
    """Return the error of an attempt that was ended at its timeout."""
    return TimedOutError(f"it took longer than its {handler.timeout.total_seconds():g} s and was ended")


def _used_up(handler: Handler, job: Job) -> Failed:
    before = f"; the last one ended so: {job.failure.message}" if job.failure is not None else ""
    allowed = (handler.retries or 0) + 1
    message = f"all {allowed} attempts are used up{before}"
    failure = Failure(error_type=CrashedError.error_type, message=message, exception="", retryable=False)
    return Failed(failure, max_attempts=allowed)
