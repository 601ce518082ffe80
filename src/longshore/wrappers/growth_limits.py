"""How far a run may grow by follow-on jobs: how deep, and to how many jobs in all.

The limits of a run lie in a note. A worker leaves out what goes beyond them as it settles, so that the rest of the
outcome counts all the same; what was left out is logged, and counted in a note beside the limits.

Both are exact: room for jobs is taken before they are added (see `room`). A job that the run has already takes no room:
the links of a menu, which every page shows, are no reason to leave out what comes behind them. The queue does not say
which those are, so each worker remembers what it has added itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar, cast

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueError, UsageError
from longshore.extensions.shared_state import SharedState, StateEntry, update_entry
from longshore.job import Job, NewJob
from longshore.lease import Lease, WorkerId
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, each_job
from longshore.wrappers.job_quota import JobQuota

LIMITS, LEFT_OUT = "runs", "runs-left-out"
"""The shelves: the limits of each run that has some, and what each run was to have and does not."""
_KNOWN_SECONDS = 30.0
"""How long the limits of a run count as known; a change takes so long to reach everybody."""
_TELL_SECONDS = 5.0
_MOST_KNOWN = 100_000
"""Jobs of a run that a worker remembers; beyond that it begins anew, and the menus come back with the next page."""
_MOST = 10**12

_Said = TypeVar("_Said", bound=msgspec.Struct)


class GrowthLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run may grow. What is left out has no limit."""

    max_depth: int | None = None
    """The deepest a follow-on job may be; what is submitted from outside has depth 0."""
    max_jobs: int | None = None
    """No follow-on job joins a run that has this many jobs. What is submitted from outside always does."""

    def __post_init__(self) -> None:
        for name, value, least in (("max-depth", self.max_depth, 0), ("max-jobs", self.max_jobs, 1)):
            if value is not None and not least <= value <= _MOST:
                raise UsageError(f"--{name} cannot be {value}: it takes a whole number from {least:,} to {_MOST:,}.")

    def __bool__(self) -> bool:
        return self.max_depth is not None or self.max_jobs is not None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many follow-on jobs were left out."""

    too_deep: int = 0
    too_many: int = 0

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(too_deep=self.too_deep + other.too_deep, too_many=self.too_many + other.too_many)

    def __bool__(self) -> bool:
        return bool(self.too_deep or self.too_many)


def within(
    limits: GrowthLimits, job: Job, follow_on: Sequence[NewJob], room: int = 0, known: AbstractSet[int] = frozenset()
) -> tuple[tuple[NewJob, ...], LeftOut]:
    """What may join a run with that room from a job's follow-on jobs, the first of them first; and how many may not.

    `known` are the names (see `_name`) of jobs that are in the run, and so do not make it larger.
    """
    if _too_deep(limits, job):
        return (), LeftOut(too_deep=len(follow_on))
    if limits.max_jobs is None:
        return tuple(follow_on), LeftOut()
    new: set[int] = set()
    kept = []
    for each in follow_on:
        name = _name(each)
        if name not in known and name not in new:
            if len(new) == room:
                continue
            new.add(name)
        kept.append(each)
    return tuple(kept), LeftOut(too_many=len(follow_on) - len(kept))


class GrowthLimitedQueue:
    """A queue as a worker settles on it: what goes beyond the limits of its run is left out. All else goes through."""

    def __init__(self, queue: Queue, clock: Clock, *, holder: str | None = None) -> None:
        """`holder` is given for a second connection of the same worker: both replace each other's quota of new jobs."""
        self._queue = queue
        self._clock = clock
        self._limits: dict[str, tuple[float, GrowthLimits]] = {}
        self._room = JobQuota(queue, clock, holder)
        self._one_at_a_time = asyncio.Lock()
        self._known: defaultdict[str, set[int]] = defaultdict(set)
        self._untold: dict[str, LeftOut] = {}
        self._told: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    @property
    def holder(self) -> str:
        """The name under which this worker takes its quota of new jobs."""
        return self._room.holder

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Settle, without the follow-on jobs that there may not be."""
        if not self._queue.traits.keeps_notes or not any(_follow_on(each) for each in settlements):
            return await self._queue.settle(settlements)
        runs = dict.fromkeys(each.lease.job.run for each in settlements if _follow_on(each))
        limits = {run: await self._limits_of(run) for run in runs}
        if not any(its.max_jobs is not None for its in limits.values()):
            return await self._settle_within(settlements, limits, Counter())
        # What is taken is for what is settled next.
        async with self._one_at_a_time:
            return await self._settle_within(settlements, limits, await self._room_for(settlements, limits))

    async def _room_for(self, settlements: Sequence[Settlement], limits: Mapping[str, GrowthLimits]) -> Counter[str]:
        """How many jobs that are not known to be there may join each run that has a number."""
        room: Counter[str] = Counter()
        for run, its in limits.items():
            if its.max_jobs is None:
                continue
            adding = [
                each
                for each in settlements
                if each.lease.job.run == run and _follow_on(each) and not _too_deep(its, each.lease.job)
            ]
            new = {_name(job) for each in adding for job in _follow_on(each)} - self._known[run]
            if new:
                room[run] = await self._room.take(run, its.max_jobs, len(new), adding[0].lease.held)
        return room

    async def _settle_within(
        self, settlements: Sequence[Settlement], limits: Mapping[str, GrowthLimits], room: Counter[str]
    ) -> list[bool]:
        left_out: list[LeftOut] = []
        trimmed: list[Settlement] = []
        for each in settlements:
            fitting, dropped = self._trimmed(each, limits.get(each.lease.job.run, GrowthLimits()), room)
            trimmed.append(fitting)
            left_out.append(dropped)
        accepted = [False] * len(trimmed)
        try:
            accepted = await self._queue.settle(trimmed)
        finally:
            # What was refused is not there, and of what had no answer nobody knows: it takes room the next time.
            for settlement, ok in zip(trimmed, accepted, strict=True):
                if not ok and (run := settlement.lease.job.run) in self._known:
                    self._known[run].difference_update(map(_name, _follow_on(settlement)))
        for settlement, dropped, ok in zip(trimmed, left_out, accepted, strict=True):
            if ok:
                self._count(settlement.lease.job.run, dropped)
        return accepted

    async def fitting(self, job: Job, follow_on: Sequence[NewJob]) -> tuple[NewJob, ...]:
        """Return those follow-on jobs of a completed job that may join its run, and count the others as left out.

        For a caller that adds them itself, right away. Workers that add to the same run meanwhile may take the same
        quota, because the job is not claimed.
        """
        if not self._queue.traits.keeps_notes or not follow_on:
            return tuple(follow_on)
        limits = {job.run: await self._limits_of(job.run)}
        settlement = Settlement(Lease(job, WorkerId("", ""), 0.0), Completed(None, tuple(follow_on)))
        room = await self._room_for([settlement], limits)
        trimmed, dropped = self._trimmed(settlement, limits[job.run], room)
        self._count(job.run, dropped)
        return _follow_on(trimmed)

    async def learn(self, run: str) -> None:
        """Read which jobs a run has, so that adding them again needs no quota. For a caller that did not add them."""
        if not self._queue.traits.keeps_notes or (await self._limits_of(run)).max_jobs is None:
            return
        known = self._known[run]
        async for job in each_job(self._queue, Selection(run=run)):
            if len(known) >= _MOST_KNOWN:
                return
            known.add(_name(job))

    def _count(self, run: str, dropped: LeftOut) -> None:
        if dropped:
            self._untold[run] = self._untold.get(run, LeftOut()) + dropped

    async def keep(self) -> None:
        """Say and count what was left out, every few seconds, until cancelled."""
        while self._queue.traits.keeps_notes:
            await self._clock.sleep(_TELL_SECONDS)
            await self.tell()

    async def tell(self) -> None:
        """Say and count what was left out since the last time. What cannot be counted now is counted the next time."""
        # Not at the top: who only asks how far a run is would import it, too.
        import structlog

        log = structlog.get_logger()
        for run, dropped in list(self._untold.items()):
            if not self._told[run]:
                log.warning(
                    "Follow-on jobs are left out: the run has reached a limit. `longshore submit --run` with a higher "
                    "--max-depth or --max-jobs raises it",
                    run=run,
                    too_deep=dropped.too_deep,
                    too_many=dropped.too_many,
                )
            self._told[run] += 1
            try:
                counted = await add_left_out(cast("SharedState", self._queue), run, dropped)
            except QueueError as error:
                log.debug("What was left out could not be counted; it will be", run=run, error=str(error))
                return
            del self._untold[run]
            if self._told[run] > 1:
                log.info("Follow-on jobs left out so far", run=run, **msgspec.structs.asdict(counted))

    def _trimmed(self, settlement: Settlement, limits: GrowthLimits, room: Counter[str]) -> tuple[Settlement, LeftOut]:
        follow_on = _follow_on(settlement)
        if not follow_on or not limits:
            return settlement, LeftOut()
        job = settlement.lease.job
        known = self._known[job.run]
        kept, dropped = within(limits, job, follow_on, room[job.run], known)
        if limits.max_jobs is not None:
            new = {_name(each) for each in kept} - known
            room[job.run] -= len(new)
            if len(known) + len(new) > _MOST_KNOWN:
                known.clear()
            known |= new
        if not dropped:
            return settlement, dropped
        outcome = msgspec.structs.replace(cast("Completed", settlement.outcome), jobs=kept)
        return msgspec.structs.replace(settlement, outcome=outcome), dropped

    async def _limits_of(self, run: str) -> GrowthLimits:
        now = self._clock.monotonic()
        read, limits = self._limits.get(run, (float("-inf"), GrowthLimits()))
        if now - read >= _KNOWN_SECONDS:
            limits = await limits_of(cast("SharedState", self._queue), run)
            self._limits[run] = now, limits
        return limits


async def limits_of(queue: SharedState, run: str) -> GrowthLimits:
    """The limits of a run; none where none were set."""
    return decode_entry((await queue.notes(LIMITS, frozenset({run}))).get(run), GrowthLimits)


async def left_out_of(queue: SharedState, run: str) -> LeftOut:
    """What a run was to have and does not, as far as workers have said."""
    return decode_entry((await queue.notes(LEFT_OUT, frozenset({run}))).get(run), LeftOut)


async def add_left_out(queue: SharedState, run: str, dropped: LeftOut) -> LeftOut:
    """Count what was left out of a run. Returns the sum. `QueueError` where others were faster again and again."""

    async def add(note: StateEntry, _: float) -> object:
        return msgspec.to_builtins(decode_entry(note, LeftOut) + dropped)

    busy = QueueError(f"The note of what run {run} left out is being written by too many at once.")
    return decode_entry((await update_entry(queue, LEFT_OUT, run, add, busy)).after, LeftOut)


def _name(job: NewJob | Job) -> int:
    """What tells it from the other jobs of its run, within this process."""
    return hash((job.kind, job.key))


def _too_deep(limits: GrowthLimits, job: Job) -> bool:
    return limits.max_depth is not None and job.depth >= limits.max_depth


def _follow_on(settlement: Settlement) -> tuple[NewJob, ...]:
    outcome = settlement.outcome
    return outcome.jobs if isinstance(outcome, Completed) else ()


def decode_entry(note: StateEntry, kind: type[_Said]) -> _Said:
    """What a note says; one that makes no sense here, of another version perhaps, says nothing."""
    try:
        return kind() if note.value is None else msgspec.convert(note.value, kind)
    except (msgspec.ValidationError, UsageError):
        return kind()
