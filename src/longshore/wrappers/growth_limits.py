"""Growth limits: how deep follow-on jobs of a run may go, and how many jobs the run may have.

The limits of a run are a shared entry. A worker that settles a job drops the follow-on jobs beyond the limits; the rest
of the outcome still counts. Dropped jobs are logged, and counted in an entry beside the limits.

Both limits are exact: quota for new jobs is taken before they are added (see `job_quota`). A job that the run has
already needs no quota; otherwise the menu links that every page repeats would use up the limit. The queue does not say
which jobs those are, so each worker remembers the jobs that it added itself.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueError, UsageError
from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState, StateEntry, update_entry
from longshore.job import Job, NewJob
from longshore.lease import Held
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, each_job
from longshore.wrappers.job_quota import JobQuota
from longshore.wrappers.queue_wrapper import QueueWrapper

LIMITS, LEFT_OUT = "runs", "runs-left-out"
"""The namespaces: the limits of each run that has some, and how many jobs were dropped from each run."""
_KNOWN_SECONDS = 30.0
"""Seconds for which a worker uses limits that it has read; a change takes as long to reach all workers."""
_TELL_SECONDS = 5.0
_MOST_KNOWN = 100_000
"""Jobs of a run that a worker remembers. Beyond that it starts over; the next page names the menu links again."""
_MOST = 10**12

_Decoded = TypeVar("_Decoded", bound=msgspec.Struct)


class GrowthLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run may grow. None is no limit."""

    max_depth: int | None = None
    """The greatest depth of a follow-on job; a job that is submitted from outside has depth 0."""
    max_jobs: int | None = None
    """No follow-on job joins a run that has this many jobs. A job that is submitted from outside always does."""

    def __post_init__(self) -> None:
        for name, value, least in (("max-depth", self.max_depth, 0), ("max-jobs", self.max_jobs, 1)):
            if value is not None and not least <= value <= _MOST:
                raise UsageError(f"--{name} cannot be {value}: it takes a whole number from {least:,} to {_MOST:,}.")

    def __bool__(self) -> bool:
        return self.max_depth is not None or self.max_jobs is not None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The number of follow-on jobs that were dropped, by reason."""

    too_deep: int = 0
    too_many: int = 0

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(too_deep=self.too_deep + other.too_deep, too_many=self.too_many + other.too_many)

    def __bool__(self) -> bool:
        return bool(self.too_deep or self.too_many)


def within(
    limits: GrowthLimits, job: Job, follow_on: Sequence[NewJob], quota: int = 0, known: AbstractSet[int] = frozenset()
) -> tuple[tuple[NewJob, ...], LeftOut]:
    """Return the follow-on jobs of `job` that may join a run with this `quota`, in order, and how many may not.

    `known` are the names (see `_name`) of jobs that are in the run already and so need no quota.
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
            if len(new) == quota:
                continue
            new.add(name)
        kept.append(each)
    return tuple(kept), LeftOut(too_many=len(follow_on) - len(kept))


class GrowthLimitedQueue(QueueWrapper):
    """A queue whose `settle` drops follow-on jobs beyond the limits of their run."""

    def __init__(self, queue: Queue, clock: Clock, *, holder: str | None = None) -> None:
        """`holder` is given for a second connection of the same worker: both replace each other's quota of new jobs."""
        super().__init__(queue)
        self._clock = clock
        self._state = None if queue.traits.keeps_limits else find(queue, SharedState)
        self._limits: dict[str, _Seen] = {}
        self._quota = JobQuota(queue, clock, holder)
        self._one_at_a_time = asyncio.Lock()
        self._known: defaultdict[str, set[int]] = defaultdict(set)
        self._learned: set[str] = set()
        self._uncounted: dict[str, LeftOut] = {}
        self._reports: Counter[str] = Counter()
        self.dropped = 0
        """The number of follow-on jobs that this process has dropped."""

    @property
    def holder(self) -> str:
        """The name under which this worker takes its quota of new jobs."""
        return self._quota.holder

    def look_again(self) -> None:
        """Read the limits of runs, and learn which jobs they have, again: either has been changed."""
        # A new dictionary: what is being read at this moment goes to the former one.
        self._limits = {}
        self._known.clear()
        self._learned.clear()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Settle, without the follow-on jobs beyond the limits."""
        if self._state is None or not any(_follow_on(each) for each in settlements):
            return await self._queue.settle(settlements)
        runs = dict.fromkeys(each.lease.job.run for each in settlements if _follow_on(each))
        limits = {run: await self._limits_of(run) for run in runs}
        if not any(its.max_jobs is not None for its in limits.values()):
            return await self._settle_within(settlements, limits, Counter())
        # One at a time: the quota taken is for the settlement that follows it.
        async with self._one_at_a_time:
            return await self._settle_within(settlements, limits, await self._quota_for(settlements, limits))

    async def _quota_for(self, settlements: Sequence[Settlement], limits: Mapping[str, GrowthLimits]) -> Counter[str]:
        """Return how many jobs that are not known to be there may join each run with `max_jobs`."""
        quota: Counter[str] = Counter()
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
                quota[run] = await self._quota.take(run, its.max_jobs, len(new), adding[0].lease.held)
        return quota

    async def _settle_within(
        self, settlements: Sequence[Settlement], limits: Mapping[str, GrowthLimits], quota: Counter[str]
    ) -> list[bool]:
        left_out: list[LeftOut] = []
        trimmed: list[Settlement] = []
        for each in settlements:
            fitting, dropped = self._trimmed(each, limits.get(each.lease.job.run, GrowthLimits()), quota)
            trimmed.append(fitting)
            left_out.append(dropped)
        accepted = [False] * len(trimmed)
        try:
            accepted = await self._queue.settle(trimmed)
        finally:
            # Jobs of a refused settlement are not in the run, and without an answer it is not known whether they are:
            # they need quota the next time.
            for settlement, ok in zip(trimmed, accepted, strict=True):
                if not ok and (run := settlement.lease.job.run) in self._known:
                    self._known[run].difference_update(map(_name, _follow_on(settlement)))
        for settlement, dropped, ok in zip(trimmed, left_out, accepted, strict=True):
            if ok:
                self._count(settlement.lease.job.run, dropped)
        return accepted

    async def fitting(self, run: str, jobs: Sequence[Job], claim: Held) -> list[Job]:
        """Return the jobs of a run that may join it as follow-on jobs, in order, and count the others as dropped.

        For a caller that adds them itself, right away; see `admission`. A job without a parent always may. `claim` is
        the one that the quota for them is taken under.
        """
        limits = await self._limits_of(run)
        known = self._known[run]
        deepest = math.inf if limits.max_depth is None else limits.max_depth
        kept = [job for job in jobs if job.parent is None or job.depth <= deepest]
        too_deep = len(jobs) - len(kept)
        if limits.max_jobs is not None:
            new = dict.fromkeys(name for job in kept if job.parent is not None and (name := _name(job)) not in known)
            quota = await self._quota.take(run, limits.max_jobs, len(new), claim)
            allowed = frozenset(list(new)[:quota])
            kept = [job for job in kept if job.parent is None or _name(job) in known or _name(job) in allowed]
            self._remember(run, {_name(job) for job in kept})
        self._count(run, LeftOut(too_deep=too_deep, too_many=len(jobs) - too_deep - len(kept)))
        return kept

    async def learn(self, run: str) -> None:
        """Read which jobs a run has, so that adding them again needs no quota. For a caller that did not add them."""
        if run in self._learned or (await self._limits_of(run)).max_jobs is None:
            return
        self._learned.add(run)
        known = self._known[run]
        async for job in each_job(self._queue, Selection(run=run)):
            if len(known) >= _MOST_KNOWN:
                return
            known.add(_name(job))

    def _remember(self, run: str, names: AbstractSet[int]) -> None:
        known = self._known[run]
        if len(known | names) > _MOST_KNOWN:
            known.clear()
        known |= names

    def _count(self, run: str, dropped: LeftOut) -> None:
        if dropped:
            self.dropped += dropped.too_deep + dropped.too_many
            self._uncounted[run] = self._uncounted.get(run, LeftOut()) + dropped

    async def keep(self) -> None:
        """Log and count the dropped jobs, every few seconds, until cancelled."""
        while self._state is not None:
            await self._clock.sleep(_TELL_SECONDS)
            await self.tell()

    async def tell(self) -> None:
        """Log and count the jobs that were dropped since the last call. If counting fails, the next call repeats it."""
        if self._state is None:
            return
        # Imported here to keep start-up quick for commands that only read the state of a run.
        import structlog

        log = structlog.get_logger()
        for run, dropped in list(self._uncounted.items()):
            if not self._reports[run]:
                log.warning(
                    "Follow-on jobs are left out: the run has reached a limit. `longshore submit --run` with a higher "
                    "--max-depth or --max-jobs raises it",
                    run=run,
                    too_deep=dropped.too_deep,
                    too_many=dropped.too_many,
                )
            self._reports[run] += 1
            try:
                counted = await add_left_out(self._state, run, dropped)
            except QueueError as error:
                log.debug("Counting the follow-on jobs left out failed; it is repeated", run=run, error=str(error))
                return
            del self._uncounted[run]
            if self._reports[run] > 1:
                log.info("Follow-on jobs left out until now", run=run, **msgspec.structs.asdict(counted))

    def _trimmed(self, settlement: Settlement, limits: GrowthLimits, quota: Counter[str]) -> tuple[Settlement, LeftOut]:
        outcome = settlement.outcome
        if not isinstance(outcome, Completed) or not outcome.jobs or not limits:
            return settlement, LeftOut()
        job = settlement.lease.job
        known = self._known[job.run]
        kept, dropped = within(limits, job, outcome.jobs, quota[job.run], known)
        if limits.max_jobs is not None:
            new = {_name(each) for each in kept} - known
            quota[job.run] -= len(new)
            self._remember(job.run, new)
        if not dropped:
            return settlement, dropped
        return msgspec.structs.replace(settlement, outcome=msgspec.structs.replace(outcome, jobs=kept)), dropped

    async def _limits_of(self, run: str) -> GrowthLimits:
        if self._state is None:
            return GrowthLimits()
        now, seen = self._clock.monotonic(), self._limits
        before = seen.get(run)
        if before is not None and now - before.read < _KNOWN_SECONDS:
            return before.limits
        entry = await _entry_of(self._state, run)
        if before is not None and before.version != entry.version:
            # The run may have been pruned and submitted again, without the jobs that it had.
            self._known.pop(run, None)
            self._learned.discard(run)
        seen[run] = _Seen(now, entry.version, decode_entry(entry, GrowthLimits))
        return seen[run].limits


class _Seen(NamedTuple):
    """The limits of a run as they were read."""

    read: float
    version: str
    limits: GrowthLimits


async def limits_of(state: SharedState, run: str) -> GrowthLimits:
    """Return the limits of a run; no limits if none were set."""
    return decode_entry(await _entry_of(state, run), GrowthLimits)


async def _entry_of(state: SharedState, run: str) -> StateEntry:
    return (await state.read_entries(LIMITS, frozenset({run}))).get(run)


async def left_out_of(state: SharedState, run: str) -> LeftOut:
    """Return how many follow-on jobs were dropped from a run, as far as workers have counted them."""
    return decode_entry((await state.read_entries(LEFT_OUT, frozenset({run}))).get(run), LeftOut)


async def add_left_out(state: SharedState, run: str, dropped: LeftOut) -> LeftOut:
    """Add to the number of jobs dropped from a run and return the sum.

    Raise `QueueError` if other writers were faster every time.
    """

    async def add(entry: StateEntry, _: float) -> object:
        return msgspec.to_builtins(decode_entry(entry, LeftOut) + dropped)

    busy = QueueError(f"Too many workers count the jobs that run {run} left out at the same time.")
    return decode_entry((await update_entry(state, LEFT_OUT, run, add, busy)).after, LeftOut)


def _name(job: NewJob | Job) -> int:
    """Return a number that identifies a job within its run, in this process."""
    return hash((job.kind, job.key))


def _too_deep(limits: GrowthLimits, job: Job) -> bool:
    return limits.max_depth is not None and job.depth >= limits.max_depth


def _follow_on(settlement: Settlement) -> tuple[NewJob, ...]:
    outcome = settlement.outcome
    return outcome.jobs if isinstance(outcome, Completed) else ()


def decode_entry(entry: StateEntry, kind: type[_Decoded]) -> _Decoded:
    """Return the value of an entry; the default if there is none, or if this version does not understand it."""
    try:
        return kind() if entry.value is None else msgspec.convert(entry.value, kind)
    except (msgspec.ValidationError, UsageError):
        return kind()
