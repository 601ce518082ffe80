"""The figures of one look at a queue, or at one of its runs: what a terminal shows, and a page could."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.job import Job, State
from longshore.pacing.host_rate import HostRate
from longshore.pacing.store_shared import MachineRateStore, rate_store_for
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.estimate.estimate import Estimate
from longshore.runs.estimate.throughput import Throughput, ThroughputSpan
from longshore.runs.watch.active_workers import works_on
from longshore.runs.watch.current_rate import CurrentRate, seconds_left
from longshore.runs.watch.watcher import RunWatcher
from longshore.top.failures import FailureKind, FailureTally, failure_kinds
from longshore.top.hosts import HostRow, PendingTally, host_rows
from longshore.top.job_reader import JobReader
from longshore.top.workers import Roster, WorkerRow

_DEEP_EVERY, _DEEP_SHARE = 5.0, 20
"""Jobs are read every so many seconds at most, and for this part of the time at most."""
_CLAIMED = 500


class LaneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A run; or a kind and partition of one."""

    count: Count
    """With the names of what it counts."""
    per_second: float
    left: float | None
    """Seconds that the rest takes at this pace; None where that cannot be said."""


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue, or a run, stands at one moment."""

    run: str | None
    """None is all runs."""
    count: Count
    lanes: tuple[LaneFigures, ...]
    """The runs, those that are worked on first and the finished last; or the kinds and partitions of the one run."""
    per_second: float
    """Jobs finished a second, lately."""
    spans: tuple[ThroughputSpan, ...]
    """What finished when, oldest first."""
    left: float | None
    """Seconds that the rest takes at this pace; None where that cannot be said."""
    estimate: Estimate | None
    """The same with what is known about the run; None for all runs together."""
    workers: tuple[WorkerRow, ...]
    workers_known: bool
    """Whether all of the jobs that are held were read, so that it is known who holds how many."""
    hosts: tuple[HostRow, ...]
    hosts_known: bool
    """Whether all pending jobs were read, so that what waits for each host is counted rather than guessed."""
    failures: tuple[FailureKind, ...]
    failures_known: bool
    """Whether all failed jobs were read."""


class FiguresReader:
    """Looks at a queue, or at one run, again and again; learns how fast it goes and who is at work."""

    def __init__(self, queue: Queue, run: str | None, clock: Clock) -> None:
        self._queue = queue
        self._run = run
        self._clock = clock
        self._watch = None if run is None else RunWatcher(queue, run, clock)
        self._throughput = Throughput()
        self._paces: dict[tuple[str, str, str], CurrentRate] = {}
        self._roster = Roster()
        self._pending = JobReader(queue, self._select(State.PENDING), PendingTally, clock)
        self._failed = JobReader(queue, self._select(State.FAILED), FailureTally, clock)
        self._failed_read: int | None = None
        self._pace: tuple[float, dict[str, HostRate]] = (0.0, {})
        self._deep_at = float("-inf")
        self._claimed: list[Job] = []
        self._claimed_at = float("-inf")

    async def look(self) -> QueueFigures:
        """How it stands now. `NotFoundError` where the queue has no such run, or has it no more."""
        if self._watch is None:
            counts, estimate = await self._queue.stats(), None
            count, at = totals(counts), self._clock.monotonic()
            self._throughput.note(at, count.completed + count.failed)
            spans, per_second = self._throughput.spans, self._throughput.per_second
        else:
            seen = await self._watch.look()
            counts, count, estimate, at = list(seen.lanes), seen.count, seen.estimate, seen.at
            spans, per_second = seen.evidence.spans, seen.per_second
        claimed = await self._under_way(count)
        workers = self._roster.note(at, await self._present(), claimed)
        if self._clock.monotonic() >= self._deep_at:
            await self._look_deep(count)
        waiting = self._pending.found
        under_way = Counter(job.host for job in claimed if job.host)
        return QueueFigures(
            run=self._run,
            count=count,
            lanes=self._lanes(counts, at),
            per_second=per_second,
            spans=spans,
            left=seconds_left(count.remaining, per_second),
            estimate=estimate,
            workers=workers,
            workers_known=len(claimed) < _CLAIMED,
            hosts=host_rows(waiting, count.pending, under_way, self._pace[1], self._pace[0]),
            hosts_known=self._pending.whole,
            failures=failure_kinds(self._failed.found, waiting.retrying),
            failures_known=self._failed.whole,
        )

    def _select(self, state: State) -> Selection:
        return Selection(run=self._run, states=frozenset({state}))

    async def _present(self) -> list[PresentWorker]:
        registry = find(self._queue, WorkerRegistry)
        there = [] if registry is None else await registry.present_workers()
        return [each for each in there if self._run is None or works_on(each, self._run)]

    async def _under_way(self, count: Count) -> list[Job]:
        """The jobs that are held, as of lately: a medium may have to go through all others to find them."""
        began = self._clock.monotonic()
        if not count.claimed:
            self._claimed = []
        elif began >= self._claimed_at:
            self._claimed = await self._queue.jobs(self._select(State.CLAIMED), limit=_CLAIMED)
            ended = self._clock.monotonic()
            self._claimed_at = ended + _DEEP_SHARE * (ended - began)
        return self._claimed

    async def _look_deep(self, count: Count) -> None:
        began = self._clock.monotonic()
        await self._pending.read()
        if not (self._failed.between and self._failed_read == count.failed):
            if self._failed.between:
                self._failed_read = count.failed
            await self._failed.read()
        self._pace = await self._standings()
        ended = self._clock.monotonic()
        self._deep_at = ended + max(_DEEP_SHARE * (ended - began), _DEEP_EVERY)

    async def _standings(self) -> tuple[float, dict[str, HostRate]]:
        shelf = rate_store_for(self._queue, self._clock)
        try:
            return await shelf.all()
        except LongshoreError:
            # Where a queue keeps none, this is a file of the machine's cache, and all else can be shown without.
            return self._pace
        finally:
            if isinstance(shelf, MachineRateStore):
                shelf.close()

    def _lanes(self, counts: Iterable[Count], at: float) -> tuple[LaneFigures, ...]:
        lanes = _by_run(counts) if self._run is None else list(counts)
        names = [(lane.run, lane.kind, lane.partition) for lane in lanes]
        self._paces = {name: self._paces.get(name) or CurrentRate() for name in names}
        made = []
        for name, lane in zip(names, lanes, strict=True):
            pace = self._paces[name]
            pace.note(at, lane.completed + lane.failed)
            left = pace.seconds_left(lane.remaining) if lane.remaining else None
            made.append(LaneFigures(count=lane, per_second=pace.per_second, left=left))
        if self._run is None:
            # Runs are mostly named after the time they were made, so that the last name is the newest.
            made.reverse()
            made.sort(key=lambda lane: (not lane.count.remaining, not lane.count.claimed))
        return tuple(made)


def _by_run(counts: Iterable[Count]) -> list[Count]:
    runs: dict[str, list[Count]] = {}
    for count in counts:
        runs.setdefault(count.run, []).append(count)
    return [msgspec.structs.replace(totals(parts), run=run) for run, parts in sorted(runs.items())]
