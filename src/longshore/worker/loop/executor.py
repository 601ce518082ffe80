"""A runner: one of the places where attempts are made, one after another.

Runners live as long as the worker, because a task for each job would cost more than many a job. So does each runner's
timer: it is set anew only when it rings and finds that another attempt has begun since.
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
from longshore.outcome import Failed, Outcome, Released, Settlement
from longshore.worker.children.child_pool import ChildPool
from longshore.worker.kit.tools import WorkerTools
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.job_spacing import JobSpacing

# An attempt that swallows its cancellation is cancelled again this often.
_INSIST_SECONDS = 1.0
# Handlers that never wait would keep everybody else from running; after this long the others get a turn.
_TURN_SECONDS = 0.01


class Interruption(Enum):
    """Why an attempt is ended from outside."""

    TIMEOUT = "it took too long"
    LOST = "its lease is lost"
    LEAVE = "the worker leaves at once"


class Executor:
    """Takes leases from the hand, makes the attempts, and passes the settlements on."""

    def __init__(
        self,
        hand: HeldLeases,
        handlers: Mapping[str, Handler],
        children: ChildPool,
        tools: WorkerTools,
        settle: Callable[[Settlement], None],
        tempo: JobSpacing,
    ) -> None:
        self._hand = hand
        self._handlers = handlers
        self._children = children
        self._tools = tools
        self._settle = settle
        self._tempo = tempo
        self._log = structlog.get_logger()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self.started = 0.0
        """When what is under way here began, by the event loop's clock."""
        self.lease: Lease | None = None
        """What is under way here."""
        self.deadline: float | None = None
        """When it must be over (`time.monotonic`)."""
        self.interruption: Interruption | None = None
        self.retired = False
        """Set from outside: take no more jobs."""

    async def run(self) -> None:
        """Work until the hand closes, or until retired."""
        self._task = asyncio.current_task()
        hand, ready, now, tempo = self._hand, self._hand.ready, self._loop.time, self._tempo
        turn = now()
        while not self.retired:
            if not ready or len(ready) <= hand.low or tempo.pauses or hand.now() > hand.sure_until:
                lease = await (tempo.next(hand, self) if tempo.pauses else hand.next())
                if lease is None:
                    if hand.closed:
                        break
                    continue
                turn = now()
            else:
                lease = ready.popleft()
            self.started = now()
            outcome = await self._attempt(lease)
            ended = now()
            if tempo.pauses:
                tempo.ended(hand)
            if outcome is not None:
                self._settle(Settlement(lease, outcome, ended - self.started))
            if ended - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = now()
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self, why: Interruption) -> None:
        """End the attempt that is under way. Has no effect when none is, or when it is being ended already."""
        if self.lease is not None and self.interruption is None and self._task is not None:
            self.interruption = why
            self._task.cancel()

    @property
    def handler(self) -> Handler | None:
        """The handler of what is under way."""
        lease = self.lease
        return None if lease is None else self._handlers[lease.job.kind]

    async def _attempt(self, lease: Lease) -> Outcome | None:
        """The outcome; None where it would count for nothing, the lease being lost."""
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
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is its verdict, and is recorded as such
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
        # Its traceback leads back here: a cycle that would keep what the attempt held, pages and all, for long.
        del caught
        return outcome

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
        except WorkerError as error:
            return outcome_of_error(handler, job, error)
        # The time starts now: importing the handler file is not the job's fault.
        self.started = self._loop.time()
        self._arm(handler)
        try:
            outcome, records = await child.run(job)
        except BaseException as error:
            await self._children.end(child)
            if isinstance(error, WorkerError):
                return self._failed_without_a_word(handler, job, error)
            raise
        self._children.put(child)
        self._tools.take_encoded(job, records)
        return outcome

    def _failed_without_a_word(self, handler: Handler, job: Job, error: WorkerError) -> Outcome:
        """The child died of the job, and left nothing but the fact."""
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
            self._timer = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        deadline, handler = self.deadline, self.handler
        if deadline is None or handler is None:
            return
        if self._loop.time() < deadline:
            self._timer = self._loop.call_at(deadline, self._ring)
        elif self.interruption is None:
            self.interrupt(Interruption.TIMEOUT)
            self._timer = self._loop.call_later(_INSIST_SECONDS, self._ring)
        elif handler.is_async and self._task is not None:
            self._task.cancel()
            self._timer = self._loop.call_later(_INSIST_SECONDS, self._ring)


def timed_out(handler: Handler) -> TimedOutError:
    """The error of an attempt that was ended at its timeout."""
    return TimedOutError(f"it took longer than its {handler.timeout.total_seconds():g} s and was ended")


def _used_up(handler: Handler, job: Job) -> Failed:
    before = f"; the last one ended so: {job.failure.message}" if job.failure is not None else ""
    allowed = (handler.retries or 0) + 1
    message = f"all {allowed} attempts are used up{before}"
    failure = Failure(error_type=CrashedError.error_type, message=message, exception="", retryable=False)
    return Failed(failure, max_attempts=allowed)
