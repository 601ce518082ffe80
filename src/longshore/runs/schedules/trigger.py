"""Start the runs of schedules, exactly one for each due time, with any number of workers.

    1. Write into the schedule's entry that the run begins, with its id and the worker. Compare-and-swap lets one win.
    2. Submit the jobs. The run's id follows from the schedule and the time, so submitting twice changes nothing.
    3. Write that the time has been handled.

If a worker dies after the first step, the others see no heartbeat from it, and one of them takes over the second step.
A slow worker that finds its run taken over stops submitting. All times are by the queue's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import InputFileError, LongshoreError, PassingQueueError, QueueError, UsageError
from longshore.extensions.shared_state import UNCHANGED, StateEntry
from longshore.job import NewJob
from longshore.queue import Queue, Submitted
from longshore.runs.control.growth_limits import set_limits
from longshore.runs.schedules.schedule import (
    SILENT_SECONDS,
    Begun,
    Schedule,
    StoredSchedule,
    keeping,
    put,
    run_id,
    schedule_of,
    schedules,
    stored_schedule,
    update,
)
from longshore.runs.sources.source import Source
from longshore.runs.submit.batches import submit_batches
from longshore.runs.submit.submission import Submission, SubmissionPlan
from longshore.wrappers.differing_duplicates import advice

_HEARTBEAT_SECONDS = 15.0
_QUICK_POLL, _SLOW_POLL = 10.0, 60.0
"""Seconds between two polls of the schedules, on media with quick and with slow shared state."""
_AHEAD = 300.0
"""Seconds by which two correct clocks never differ."""

log = structlog.get_logger()


class ScheduleTrigger:
    """Starts the due runs of a queue's schedules, on behalf of one worker."""

    def __init__(self, queue: Queue, clock: Clock, who: str) -> None:
        """`who` is an incarnation, which is unique. Raise `UsageError` if the queue has no shared state."""
        self._queue = queue
        self._state = keeping(queue)
        self._clock = clock
        self._who = who
        quick = queue.traits.quick_shared_state
        self._every = _QUICK_POLL if quick else _SLOW_POLL
        self._silence = SILENT_SECONDS if quick else 2 * SILENT_SECONDS
        self._warned: set[tuple[str, float]] = set()

    async def look(self) -> float:
        """Start the due runs that can be started from here. Return the seconds until the next poll.

        If the jobs of a run cannot be read, the error is logged and stored in the schedule; the next scheduled time
        tries again.
        """
        now, there = await schedules(self._state)
        wait = self._every
        for name, stored in there.items():
            if await self._counts_from_now(name, stored, now):
                wait = 0.0
                continue
            instant = self._due(stored.schedule, now)
            if instant is not None and await self._start(name, stored, instant, now):
                # Submitting takes time, and a run taken over from another worker is overdue: more may be due by now.
                wait = 0.0
            wait = min(wait, max(stored.schedule.next(now) - now, 0.0))
        return wait

    async def start_now(self, name: str) -> Submission:
        """Start a run of a schedule now. Raise `LongshoreError` if its jobs cannot be read."""
        now, stored = await schedule_of(self._state, name)
        begun = stored.schedule.begun
        if begun is not None and not self._may_take_over(begun, now):
            raise UsageError(f"{begun.by} is submitting run {begun.run} of {name}. Wait until it is submitted.")
        instant = float(int(now)) if begun is None else begun.instant
        source, partitions = await asyncio.to_thread(stored.schedule.what.here)
        mine = await self._begin(name, stored, instant, now)
        if mine is None:
            raise UsageError(f"Another process has just started a run of {name}. See `longshore schedule`.")
        done, trouble = await self._carry_out(name, stored.schedule, mine, source, partitions)
        if trouble is not None:
            raise trouble
        return done

    def _due(self, schedule: Schedule, now: float) -> float | None:
        begun = schedule.begun
        if begun is not None:
            return begun.instant if self._may_take_over(begun, now) else None
        return schedule.due(now)

    def _may_take_over(self, begun: Begun, now: float) -> bool:
        # If it is ours, we are not submitting it now: the reply to our write was lost, or the queue was unreachable.
        # A heartbeat in the future comes from a wrong clock and counts like an old one.
        return begun.by == self._who or abs(now - begun.seen) >= self._silence

    async def _start(self, name: str, stored: StoredSchedule, instant: float, now: float) -> bool:
        """Start the run for a due time. Return False if it is left to other workers."""
        try:
            source, partitions = await asyncio.to_thread(stored.schedule.what.here)
        except LongshoreError as error:
            # The run stays due: another machine may have the source.
            if (name, instant) not in self._warned:
                self._warned.add((name, instant))
                log.warning(f"Schedule {name} is due but cannot be started from here: {error}")
            return False
        mine = await self._begin(name, stored, instant, now)
        if mine is None:
            return False
        log.info(f"Schedule {name} is due: submitting run {mine.run}")
        done, trouble = await self._carry_out(name, stored.schedule, mine, source, partitions)
        if trouble is not None:
            log.error(f"Schedule {name}: the jobs of run {mine.run} could not all be submitted: {trouble}")
        else:
            log.info(f"Schedule {name}: run {mine.run} is submitted", jobs=done.submitted, duplicates=done.duplicates)
        return True

    async def _counts_from_now(self, name: str, stored: StoredSchedule, now: float) -> bool:
        """Let the times of a schedule count from now on if its last one is in the future. Return whether it was.

        A clock was ahead when that run started; without this, no run would start until the clock has caught up. It is
        done once for each such time: if the clock of another machine stays ahead, the two must not take turns for ever.
        """
        schedule, key = stored.schedule, (name, stored.schedule.counted)
        if schedule.counted - now < _AHEAD or schedule.begun is not None or key in self._warned:
            return False
        self._warned.add(key)
        if not await put(self._state, stored.note, msgspec.structs.replace(schedule, made=now, last=None)):
            return True
        until = datetime.fromtimestamp(schedule.counted, UTC).strftime("%Y-%m-%d %H:%M")
        log.warning(
            f"Schedule {name} was handled up to {until} UTC, which is in the future: a clock was wrong then, or is "
            "wrong now. Its times count from now on; a run that was started too early is not started again. Check the "
            "clocks of the machines and of the queue's server"
        )
        return True

    async def _begin(self, name: str, stored: StoredSchedule, instant: float, now: float) -> Begun | None:
        """Write that the run begins. Return None if another worker wrote first."""
        before = stored.schedule.begun
        mine = Begun(instant, run_id(name, instant) if before is None else before.run, self._who, now)
        begun = msgspec.structs.replace(stored.schedule, begun=mine)
        return mine if await put(self._state, stored.note, begun) else None

    async def _carry_out(
        self, name: str, schedule: Schedule, mine: Begun, source: Source, partitions: frozenset[str] | None
    ) -> tuple[Submission, LongshoreError | None]:
        """Submit the jobs, and write that the time has been handled and which error occurred.

        On `QueueError` nothing is written: the run is taken over later.
        """
        submitting = asyncio.ensure_future(self._submit(source, schedule.plan(mine.run, partitions), schedule))
        heartbeat = asyncio.ensure_future(self._heartbeat(name, mine, submitting))
        done, trouble = Submission(mine.run), None
        try:
            done = await submitting
        except QueueError:
            raise
        except LongshoreError as error:
            trouble = error
        except asyncio.CancelledError:
            if not heartbeat.done() or heartbeat.cancelled():
                raise
            return done, UsageError("another worker has taken it over")
        finally:
            submitting.cancel()
            heartbeat.cancel()
            await asyncio.gather(submitting, heartbeat, return_exceptions=True)
        ended = {
            "last": mine.instant,
            "last_run": mine.run,
            "last_jobs": done.submitted + done.duplicates,
            # Not the message: it may quote the source, and everyone who can read the queue would see it.
            "trouble": "" if trouble is None else f"{type(trouble).__name__}; the log of {self._who} says why",
            "begun": None,
        }
        await self._update(name, mine, lambda there, _: msgspec.structs.replace(there, **ended))
        return done, trouble

    async def _submit(self, source: Source, plan: SubmissionPlan, schedule: Schedule) -> Submission:
        if schedule.limits:
            await set_limits(self._queue, plan.run, schedule.limits)
        done = Submission(plan.run)

        def answered(answer: Submitted) -> None:
            nonlocal done
            done = Submission(plan.run, done.submitted + answer.new, done.duplicates + answer.duplicates)

        differing = await submit_batches(self._queue, plan.run, _jobs(source, plan), self._clock, answered)
        if differing:
            log.warning(
                f"Jobs are left out as duplicates although their payloads differ. {advice(differing)}",
                run=plan.run,
                jobs=differing.jobs,
            )
        return msgspec.structs.replace(done, differing=differing)

    async def _heartbeat(self, name: str, mine: Begun, submitting: asyncio.Future[Submission]) -> None:
        """Write heartbeats. Cancel `submitting` if another worker has taken over or the schedule was removed."""
        while True:
            await self._clock.sleep(_HEARTBEAT_SECONDS)
            try:
                still = await self._update(name, mine, _with_heartbeat)
            except PassingQueueError:
                continue  # submitting notices it too
            if not still:
                submitting.cancel()
                return

    async def _update(self, name: str, mine: Begun, change: Callable[[Schedule, float], Schedule]) -> bool:
        """Change a schedule whose run we submit. Return False if the run is no longer ours."""

        async def if_ours(note: StateEntry, now: float) -> object:
            stored = stored_schedule(note)
            begun = None if stored is None else stored.schedule.begun
            if stored is None or begun is None or (begun.run, begun.by) != (mine.run, mine.by):
                return UNCHANGED
            return msgspec.to_builtins(change(stored.schedule, now))

        return (await update(self._state, name, if_ours)).written


def _with_heartbeat(schedule: Schedule, now: float) -> Schedule:
    begun = None if schedule.begun is None else msgspec.structs.replace(schedule.begun, seen=now)
    return msgspec.structs.replace(schedule, begun=begun)


def _jobs(source: Source, plan: SubmissionPlan) -> Generator[NewJob, None, None]:
    with _as_input_error(source):
        if source.rereadable:
            # Find malformed entries before anything is submitted.
            for _ in source.entries():
                pass
        for entry in source.entries():
            yield plan.job(entry)


@contextmanager
def _as_input_error(source: Source) -> Iterator[None]:
    """Raise any exception of a source, which may be user code, as `InputFileError`, so that only its run fails."""
    try:
        yield
    except LongshoreError:
        raise
    except (Exception, SystemExit) as error:
        raise InputFileError(f"{source.name} failed: {type(error).__name__}: {error}. Correct it.") from error
