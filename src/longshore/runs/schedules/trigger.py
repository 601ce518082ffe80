"""Starting the runs of schedules: exactly once for each time that is due, whichever worker is there.

    1. Write into the schedule's note that the run begins, with its id and who begins it. One writer is the fastest.
    2. Submit the jobs. The run's id follows from the schedule and the time, so that submitting again changes nothing.
    3. Write that the time has had its run.

Whoever dies after the first step is found silent by the others, one of whom goes on with the second. Whoever is slow
and finds that another goes on leaves it to that one. Times by the queue's clock.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import InputFileError, LongshoreError, QueueError, QueueUnavailableError, UsageError
from longshore.extensions.shared_state import UNCHANGED, StateEntry
from longshore.job import NewJob
from longshore.queue import Queue
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
    shelved_in,
    update,
)
from longshore.runs.sources.source import Source
from longshore.runs.submit.input_files import InputEntry
from longshore.runs.submit.submission import BATCH, Submission, SubmissionPlan

_BEAT_SECONDS = 15.0
_QUICK_LOOK, _SLOW_LOOK = 10.0, 60.0
"""Seconds between two looks at the schedules, where reading notes is quick and where it is not."""
_FAR_AHEAD = 86400.0
"""Seconds by which two clocks that are right are never apart."""

log = structlog.get_logger()


class Triggering:
    """One who may start runs of schedules."""

    def __init__(self, queue: Queue, clock: Clock, who: str) -> None:
        """`who` is an incarnation: nobody else ever has the same. `UsageError` where the queue keeps no notes."""
        self._queue = queue
        self._state = keeping(queue)
        self._clock = clock
        self._who = who
        quick = queue.traits.quick_shared_state
        self._every = _QUICK_LOOK if quick else _SLOW_LOOK
        self._silence = SILENT_SECONDS if quick else 2 * SILENT_SECONDS
        self._told: set[tuple[str, float]] = set()

    async def look(self) -> float:
        """Start what is due and can be started from here; the seconds until it is worth looking again.

        A run whose jobs cannot be read is noted in its schedule and logged, and the next time tries anew.
        """
        now, there = await schedules(self._state)
        wait = self._every
        for name, shelved in there.items():
            self._tell_of_the_clock(name, shelved.schedule, now)
            instant = self._due(shelved.schedule, now)
            if instant is not None and await self._start(name, shelved, instant, now):
                # Submitting takes its time, and what was begun by another is long due: more may be.
                wait = 0.0
            wait = min(wait, max(shelved.schedule.next(now) - now, 0.0))
        return wait

    async def start_now(self, name: str) -> Submission:
        """Start a run of a schedule without waiting for its time. `LongshoreError` where its jobs cannot be read."""
        now, shelved = await schedule_of(self._state, name)
        begun = shelved.schedule.begun
        if begun is not None and not self._may_go_on(begun, now):
            raise UsageError(f"Run {begun.run} of {name} is just being submitted by {begun.by}. Wait for its end.")
        instant = float(int(now)) if begun is None else begun.instant
        source, partitions = await asyncio.to_thread(shelved.schedule.what.here)
        mine = await self._begin(name, shelved, instant, now)
        if mine is None:
            raise UsageError(f"Another starts a run of {name} at this very moment. Look with `longshore schedule`.")
        done, trouble = await self._carry_out(name, shelved.schedule, mine, source, partitions)
        if trouble is not None:
            raise trouble
        return done

    def _due(self, schedule: Schedule, now: float) -> float | None:
        begun = schedule.begun
        if begun is not None:
            return begun.instant if self._may_go_on(begun, now) else None
        return schedule.due(now)

    def _may_go_on(self, begun: Begun, now: float) -> bool:
        # Ours, and we are not at it: the answer to writing so was lost, or the queue was out of reach since.
        # A sign that is still to come is of a clock that was wrong, and says no more than an old one.
        return begun.by == self._who or abs(now - begun.seen) >= self._silence

    async def _start(self, name: str, shelved: StoredSchedule, instant: float, now: float) -> bool:
        """Start the run for a time; False where that is left to others."""
        try:
            source, partitions = await asyncio.to_thread(shelved.schedule.what.here)
        except LongshoreError as error:
            # Perhaps from elsewhere: it stays due.
            if (name, instant) not in self._told:
                self._told.add((name, instant))
                log.warning(f"Schedule {name} is due, and cannot be started from here: {error}")
            return False
        mine = await self._begin(name, shelved, instant, now)
        if mine is None:
            return False
        log.info(f"Schedule {name} is due: submitting run {mine.run}")
        done, trouble = await self._carry_out(name, shelved.schedule, mine, source, partitions)
        if trouble is not None:
            log.error(f"Schedule {name}: the jobs of run {mine.run} could not all be submitted: {trouble}")
        else:
            log.info(f"Schedule {name}: run {mine.run} is submitted", jobs=done.submitted, duplicates=done.duplicates)
        return True

    def _tell_of_the_clock(self, name: str, schedule: Schedule, now: float) -> None:
        """Say once that no run will start for long, because one did while the clock was far ahead."""
        told = (name, schedule.counted)
        if schedule.counted - now < _FAR_AHEAD or told in self._told:
            return
        self._told.add(told)
        until = datetime.fromtimestamp(schedule.counted, UTC).strftime("%Y-%m-%d %H:%M")
        log.warning(
            f"Schedule {name} starts nothing before {until} UTC: its last time is still to come, so the clock was "
            "wrong then, or is now. `longshore schedule` with its --cron makes it count from now on"
        )

    async def _begin(self, name: str, shelved: StoredSchedule, instant: float, now: float) -> Begun | None:
        """Write that the run begins; None where another was faster."""
        before = shelved.schedule.begun
        mine = Begun(instant, run_id(name, instant) if before is None else before.run, self._who, now)
        begun = msgspec.structs.replace(shelved.schedule, begun=mine)
        return mine if await put(self._state, shelved.note, begun) else None

    async def _carry_out(
        self, name: str, schedule: Schedule, mine: Begun, source: Source, partitions: frozenset[str] | None
    ) -> tuple[Submission, LongshoreError | None]:
        """Submit the jobs and write that the time has had its run, with what went wrong. `QueueError`: go on later."""
        submitting = asyncio.ensure_future(self._submit(source, schedule.plan(mine.run, partitions), schedule))
        beating = asyncio.ensure_future(self._beat(name, mine, submitting))
        done, trouble = Submission(mine.run), None
        try:
            done = await submitting
        except QueueError:
            raise
        except LongshoreError as error:
            trouble = error
        except asyncio.CancelledError:
            if not beating.done() or beating.cancelled():
                raise
            return done, UsageError("another goes on with it")
        finally:
            submitting.cancel()
            beating.cancel()
            await asyncio.gather(submitting, beating, return_exceptions=True)
        ended = {
            "last": mine.instant,
            "last_run": mine.run,
            "last_jobs": done.submitted + done.duplicates,
            "trouble": "" if trouble is None else str(trouble)[:1000],
            "begun": None,
        }
        await self._update(name, mine, lambda there, _: msgspec.structs.replace(there, **ended))
        return done, trouble

    async def _submit(self, source: Source, plan: SubmissionPlan, schedule: Schedule) -> Submission:
        if schedule.limits:
            await set_limits(self._queue, plan.run, schedule.limits)
        done = Submission(plan.run)
        loop = asyncio.get_running_loop()
        # One thread, for a database must be read by the one who opened it; and not this one, for a source may be slow.
        pool = ThreadPoolExecutor(1, thread_name_prefix="schedule")
        try:
            if source.rereadable:
                # What is malformed is found before anything is submitted.
                await loop.run_in_executor(pool, _read_through, source)
            entries = await loop.run_in_executor(pool, _entries, source)
            while batch := await loop.run_in_executor(pool, _batch, entries, plan, source):
                answer = await self._queue.submit(batch)
                done = Submission(plan.run, done.submitted + answer.new, done.duplicates + answer.duplicates)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return done

    async def _beat(self, name: str, mine: Begun, submitting: asyncio.Future[Submission]) -> None:
        """Give a sign now and then; end the submitting where another goes on with it, or the schedule is removed."""
        while True:
            await self._clock.sleep(_BEAT_SECONDS)
            try:
                still = await self._update(name, mine, _with_sign)
            except QueueUnavailableError:
                continue  # who submits will notice
            if not still:
                submitting.cancel()
                return

    async def _update(self, name: str, mine: Begun, change: Callable[[Schedule, float], Schedule]) -> bool:
        """Change a schedule whose run we submit. False where it is ours no longer."""

        async def if_ours(note: StateEntry, now: float) -> object:
            shelved = shelved_in(note)
            begun = None if shelved is None else shelved.schedule.begun
            if shelved is None or begun is None or (begun.run, begun.by) != (mine.run, mine.by):
                return UNCHANGED
            return msgspec.to_builtins(change(shelved.schedule, now))

        return (await update(self._state, name, if_ours)).written


def _with_sign(schedule: Schedule, now: float) -> Schedule:
    begun = None if schedule.begun is None else msgspec.structs.replace(schedule.begun, seen=now)
    return msgspec.structs.replace(schedule, begun=begun)


def _entries(source: Source) -> Iterator[InputEntry]:
    with _blamed_on(source):
        return source.entries()


def _read_through(source: Source) -> None:
    with _blamed_on(source):
        for _ in source.entries():
            pass


def _batch(entries: Iterator[InputEntry], plan: SubmissionPlan, source: Source) -> list[NewJob]:
    with _blamed_on(source):
        return [plan.job(entry) for entry in itertools.islice(entries, BATCH)]


@contextmanager
def _blamed_on(source: Source) -> Iterator[None]:
    """A source may be anybody's code: whatever it raises is trouble with this run, and with no other."""
    try:
        yield
    except LongshoreError:
        raise
    except (Exception, SystemExit) as error:
        raise InputFileError(f"{source.name} failed: {type(error).__name__}: {error}. Correct it.") from error
