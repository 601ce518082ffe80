"""The figures of a queue, or of one of its runs, at one moment; independent of how they are displayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing

import msgspec

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.extensions.rejected import RejectedFiles
from longshore.extensions.submissions import submissions_among, workers_among
from longshore.job import Job, State
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import HostRate
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import Estimate
from longshore.runs.estimate.forecast import Forecast
from longshore.runs.estimate.throughput import Throughput, ThroughputSpan
from longshore.runs.watch.active_workers import (
    ActiveWorkers,
    active_among,
    kinds_without_worker,
    seen_among,
    works_on,
)
from longshore.runs.watch.blockers import Blockers, blockers_of
from longshore.runs.watch.current_rate import CurrentRate, seconds_left
from longshore.runs.watch.rejections import rejections_of
from longshore.top.failures import FailureKind, FailureTally, failure_kinds
from longshore.top.hosts import HostRow, PendingTally, host_rows
from longshore.top.job_reader import JobReader
from longshore.top.workers import SeenWorkers, WorkerRow

_DEEP_EVERY, _DEEP_SHARE = 5.0, 20
"""Jobs are read at most every `_DEEP_EVERY` seconds, and for at most one part in `_DEEP_SHARE` of the time."""
_CLAIMED = 500
_OLDEST = 20
"""Jobs among which the oldest is searched that may be claimed: the very oldest ones may wait for their retry."""


class LaneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run, or of one kind and partition of a run."""

    count: Count
    """The counters, with the names of the run, kind and partition."""
    per_second: float
    left: float | None
    """Seconds until the rest is finished at this rate; None if that is unknown."""


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a queue, or of a run, at one moment."""

    run: str | None
    """None is all runs."""
    count: Count
    lanes: tuple[LaneFigures, ...]
    """The runs, active ones first and finished ones last; or the kinds and partitions of the one run."""
    per_second: float
    """The current number of finished jobs per second."""
    spans: tuple[ThroughputSpan, ...]
    """The finished jobs over time, oldest first."""
    left: float | None
    """Seconds until the rest is finished at this rate; None if that is unknown."""
    estimate: Estimate | None
    """The estimate of the run's end; None for all runs together."""
    being_submitted: bool
    """Whether jobs are being added."""
    idle: float
    """Seconds since a job was last seen to finish, or since the first look."""
    blockers: Blockers
    """Pauses and limits that people set, as of this look or some seconds before."""
    active: ActiveWorkers
    untaken: tuple[str, ...]
    """Kinds with pending jobs that no worker takes, as far as the workers say."""
    rejected: RejectedFiles | None = None
    """Files that no counter includes, because they are damaged or gone; as of some seconds before."""
    workers: tuple[WorkerRow, ...]
    workers_known: bool
    """Whether all claimed jobs were read, so that the number of jobs of each worker is exact."""
    hosts: tuple[HostRow, ...]
    more_hosts: int = 0
    """Hosts of the jobs that were read and that are not listed, because others have more jobs."""
    hosts_known: bool
    """Whether all pending jobs were read, so that the number of jobs of each host is exact, not an estimate."""
    failures: tuple[FailureKind, ...]
    failures_known: bool
    """Whether all failed jobs were read."""
    counts: tuple[Count, ...] = ()
    """The counters of each run, kind and partition."""
    oldest_pending: float | None = None
    """Seconds that the oldest pending job which may be claimed has waited, as of some seconds before; 0 if there is
    none. None if the queue has no clock of its own, or before the first look at its jobs."""


class FiguresReader:
    """Reads a queue, or one run, again and again; measures its rate and tracks its workers."""

    def __init__(self, queue: Queue, run: str | None, clock: Clock) -> None:
        self._queue = queue
        self._run = run
        self._clock = clock
        self._watch = None if run is None else Forecast(queue, run, clock)
        self._throughput = Throughput()
        self._lane_rates: dict[tuple[str, str, str], CurrentRate] = {}
        self._seen_workers = SeenWorkers()
        self._pending = JobReader(queue, self._select(State.PENDING), PendingTally, clock)
        self._failed = JobReader(queue, self._select(State.FAILED), FailureTally, clock)
        self._failed_read: int | None = None
        self._host_rates: tuple[float, dict[str, HostRate]] = (0.0, {})
        self._rejected: RejectedFiles | None = None
        self._deep_at = float("-inf")
        self._known_pauses = Blockers()
        self._pauses_at = float("-inf")
        self._oldest: float | None = None
        self._claimed: list[Job] = []
        self._claimed_at = float("-inf")

    async def look(self, *, deep: bool = True) -> QueueFigures:
        """Return the current figures. Raises `NotFoundError` if the queue has no such run, or no longer has it.

        With `deep` false no pending and failed jobs are read: the figures of hosts and failures are those of before.
        """
        # Before the counts: see `extensions.submissions`.
        registry = find(self._queue, WorkerRegistry)
        listed = None if registry is None else await registry.present_workers()
        present = listed or []
        if self._watch is None:
            counts, estimate = await self._queue.stats(), None
            blockers = await self._pauses()
            count, at = totals(counts), self._clock.monotonic()
            self._throughput.note(at, count.completed + count.failed)
            spans, per_second, idle = self._throughput.spans, self._throughput.per_second, self._throughput.idle
        else:
            seen = await self._watch.look()
            counts, count, estimate, at = list(seen.lanes), seen.count, seen.estimate, seen.at
            spans, per_second, blockers = seen.evidence.spans, seen.per_second, self._watch.blockers
            idle = seen.evidence.idle
        claimed = await self._claimed_jobs(count)
        workers = self._seen_workers.note(at, self._workers_of(present), claimed)
        active = active_among(listed, self._run, claimed=count.claimed)
        if deep and self._clock.monotonic() >= self._deep_at:
            await self._look_deep(count)
        pending = self._pending.found
        in_flight = Counter(job.host for job in claimed if job.host)
        hosts = host_rows(pending, count.pending, in_flight, self._host_rates[1], self._host_rates[0])
        return QueueFigures(
            run=self._run,
            count=count,
            lanes=self._lanes(counts, at, blockers),
            per_second=per_second,
            spans=spans,
            left=None if blockers.paused else seconds_left(count.remaining, per_second),
            estimate=estimate,
            being_submitted=bool(submissions_among(present, self._run)),
            idle=idle,
            blockers=blockers,
            active=active,
            untaken=kinds_without_worker(active, counts),
            rejected=self._rejected,
            workers=workers,
            workers_known=len(claimed) < _CLAIMED,
            hosts=hosts,
            more_hosts=len(pending.hosts.keys() | in_flight.keys()) - len(hosts),
            hosts_known=self._pending.complete,
            failures=failure_kinds(self._failed.found, pending.retrying),
            failures_known=self._failed.complete,
            counts=tuple(counts),
            oldest_pending=self._oldest if count.pending or self._oldest is None else 0.0,
        )

    def expire(self) -> None:
        """Let the next look read everything again that may be some seconds old: a person has just changed something."""
        self._deep_at = self._pauses_at = self._claimed_at = float("-inf")
        if self._watch is not None:
            self._watch.expire()

    async def _pauses(self) -> Blockers:
        if self._clock.monotonic() >= self._pauses_at:
            self._known_pauses = await blockers_of(self._queue, None)
            self._pauses_at = self._clock.monotonic() + _DEEP_EVERY
        return self._known_pauses

    def _select(self, state: State) -> Selection:
        return Selection(run=self._run, states=frozenset({state}))

    def _workers_of(self, present: list[PresentWorker]) -> list[PresentWorker]:
        return [each for each in seen_among(workers_among(present)) if self._run is None or works_on(each, self._run)]

    async def _claimed_jobs(self, count: Count) -> list[Job]:
        """Return the claimed jobs, cached for a time: a medium may have to scan all other jobs to find them."""
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
        if not (self._failed.at_start and self._failed_read == count.failed):
            if self._failed.at_start:
                self._failed_read = count.failed
            await self._failed.read()
        self._host_rates = await self._read_host_rates()
        self._oldest = await self._oldest_pending()
        self._rejected = await rejections_of(self._queue, self._run)
        ended = self._clock.monotonic()
        self._deep_at = ended + max(_DEEP_SHARE * (ended - began), _DEEP_EVERY)

    async def _oldest_pending(self) -> float | None:
        """Return for how long the oldest pending job has waited, by the clock of the queue; None if that is unknown."""
        # Where the queue has one clock, the rates of its hosts were just read by it.
        now = self._host_rates[0]
        if not self._queue.traits.one_clock or not self._queue.traits.quick_shared_state or not now:
            return None
        oldest = await self._queue.jobs(self._select(State.PENDING), limit=_OLDEST)
        since = [max(job.submitted_at, job.not_before or 0.0) for job in oldest]
        return max((now - at for at in since if at <= now), default=0.0)

    async def _read_host_rates(self) -> tuple[float, dict[str, HostRate]]:
        with closing(rate_store_for(self._queue, self._clock)) as store:
            try:
                return await store.all()
            except LongshoreError:
                # If the queue has no shared state, the store is a file in the machine's cache; the other figures do
                # not need it.
                return self._host_rates

    def _lanes(self, counts: Iterable[Count], at: float, blockers: Blockers) -> tuple[LaneFigures, ...]:
        lanes = _by_run(counts) if self._run is None else list(counts)
        names = [(lane.run, lane.kind, lane.partition) for lane in lanes]
        self._lane_rates = {name: self._lane_rates.get(name) or CurrentRate() for name in names}
        figures = []
        for name, lane in zip(names, lanes, strict=True):
            rate = self._lane_rates[name]
            rate.note(at, lane.completed + lane.failed, lane.remaining)
            waits = lane.run in blockers.paused or EVERYTHING in blockers.paused
            left = rate.seconds_left(lane.remaining) if lane.remaining and not waits else None
            figures.append(LaneFigures(count=lane, per_second=rate.per_second, left=left))
        if self._run is None:
            # Most runs are named after the time of their creation, so the last name is the newest.
            figures.reverse()
            figures.sort(key=lambda lane: (not lane.count.remaining, not lane.count.claimed))
        return tuple(figures)


def _by_run(counts: Iterable[Count]) -> list[Count]:
    runs: dict[str, list[Count]] = {}
    for count in counts:
        runs.setdefault(count.run, []).append(count)
    return [msgspec.structs.replace(totals(parts), run=run) for run, parts in sorted(runs.items())]
