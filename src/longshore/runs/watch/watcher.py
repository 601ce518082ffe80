"""Watch a run until it ends, from any machine. Watching only reads: the run does not depend on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from longshore.clock import Clock
from longshore.errors import LongshoreError, NotFoundError, PassingQueueError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.queue import Count, Queue, totals
from longshore.runs.estimate.estimate import Estimate, Evidence, HostLoad, estimate, unattended
from longshore.runs.estimate.job_samples import (
    Timings,
    UnderWay,
    WaitingSurvey,
    failing,
    timings,
    under_way,
    with_recent,
)
from longshore.runs.estimate.throughput import Throughput, ThroughputSpan, spans_of
from longshore.runs.watch.active_workers import ActiveWorkers, active_among, kinds_without_worker
from longshore.system.first_of import first_of

if TYPE_CHECKING:
    from longshore.pacing.host_rate import HostRate

LOOK_EVERY, LONGEST = 1.0, 15.0
"""Seconds between two looks: on a fast queue, and at most on a slow one."""
_SHARE = 10
"""After a look, wait this many times as long as it took, so that watching does not slow the workers down."""
_SAMPLE_SHARE, _SAMPLE_EVERY = 20, 2.0
"""The same for reading samples of jobs, and the shortest time in seconds between two such readings."""
_PAGES, _PATIENCE = 5, 0.5
"""Pages of pending jobs read at a time, and the seconds after which no further page is read."""

_NO_NOTES = "pace"
"""A namespace from which no entry is requested: only the time in the reply is used."""


class WaitEnd(StrEnum):
    """How waiting for a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    """All jobs are finished and some failed."""
    CANCELLED = "cancelled"
    """All jobs are finished, none failed, and some were cancelled."""
    REJECTED = "rejected"
    """All jobs that are left are finished, none failed; files of others were rejected, or removed by hand."""
    GONE = "gone"
    """The jobs have been pruned since the last look, so it is not known how the run ended."""
    TIMEOUT = "timeout"
    DETACHED = "detached"
    """The person stopped watching."""


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run at one moment."""

    at: float
    """Monotonic seconds."""
    took: float
    """Seconds that the queue needed to return its counts."""
    lanes: tuple[Count, ...]
    """Counts by kind and partition."""
    count: Count
    """The sum of `lanes`."""
    active: ActiveWorkers
    evidence: Evidence
    per_second: float
    """Jobs finished per second over the last half minute."""
    failing: tuple[tuple[str, int], ...] = ()
    """Errors of failed jobs with their counts, the most frequent first: of all, or of the first few hundred jobs."""

    @property
    def estimate(self) -> Estimate:
        """When the run will be done. Computed on each access, which takes tens of milliseconds."""
        return estimate(self.evidence)

    @property
    def finished(self) -> bool:
        """Whether all jobs are finished and no submission is adding more."""
        return not self.count.remaining and not self.active.submissions

    @property
    def unattended(self) -> bool:
        """Whether jobs are left and no worker seems to work on them."""
        return unattended(self.evidence)


class RunWatcher:
    """Takes snapshots of one run, and measures its throughput from one to the next."""

    def __init__(self, queue: Queue, run: str, clock: Clock) -> None:
        self._queue = queue
        self._run = run
        self._clock = clock
        self._throughput: Throughput | None = None
        self._timings = Timings()
        self._survey = WaitingSurvey(queue, run)
        self._failing: Counter[str] = Counter()
        self._failed = 0
        self._loads: dict[str, HostLoad] = {}
        self._first_seen: dict[UnderWay, float] = {}
        self._claimed_at = self._samples_at = float("-inf")

    async def look(self) -> RunSnapshot:
        """Return a snapshot. Raise `NotFoundError` if the queue does not have the run, or no longer has it."""
        present = await self._present()
        began = self._clock.monotonic()
        lanes, at = await self._counts(), self._clock.monotonic()
        now, count = await self._medium_time(), totals(lanes)
        if count.claimed and at >= self._claimed_at:
            await self._read_claimed(at)
        if at >= self._samples_at:
            await self._read_samples(count, now)
        return self._snapshot(lanes, present, at, now, at - began)

    async def glance(self) -> RunSnapshot:
        """Return a snapshot from the counters and one page of jobs: fast, with a less certain estimate."""
        present = await self._present()
        lanes, at = await self._counts(), self._clock.monotonic()
        self._timings = await timings(self._queue, self._run, pages=1)
        return self._snapshot(lanes, present, at, await self._medium_time(), 0.0)

    async def _present(self) -> list[PresentWorker] | None:
        """Return the worker registry. Read it before the counts: see `extensions.submissions`."""
        registry = find(self._queue, WorkerRegistry)
        return None if registry is None else await registry.present_workers()

    async def _counts(self) -> list[Count]:
        lanes = await self._queue.stats(self._run)
        if totals(lanes).total:
            return lanes
        raise NotFoundError(f"There is no run '{self._run}'. If there was one, its jobs have been pruned.")

    def _snapshot(
        self, lanes: list[Count], present: list[PresentWorker] | None, at: float, now: float, took: float
    ) -> RunSnapshot:
        count = totals(lanes)
        active = active_among(present, self._run, claimed=count.claimed)
        finished = count.completed + count.failed
        if self._throughput is None:
            self._throughput = Throughput(self._before(finished, now))
        self._throughput.note(at, finished, active.slots or active.workers)
        return RunSnapshot(
            at=at,
            took=took,
            lanes=tuple(lanes),
            count=count,
            active=active,
            evidence=self._evidence(lanes, active, self._throughput, at, now),
            per_second=self._throughput.per_second,
            failing=tuple(self._failing.most_common()),
        )

    async def survey(self, seconds: float) -> None:
        """Read pending jobs for up to `seconds` seconds, so that the next look knows more about their hosts."""
        until = self._clock.monotonic() + seconds
        while not self._survey.through and self._clock.monotonic() < until:
            await self._survey.read(await self._medium_time())

    async def _medium_time(self) -> float:
        state = find(self._queue, SharedState)
        return self._clock.now() if state is None else (await state.read_entries(_NO_NOTES, frozenset())).now

    def _before(self, finished: int, now: float) -> list[ThroughputSpan]:
        """Return the throughput before the first look, from the jobs that were finished by then."""
        known = self._timings
        if known.began is None or now <= known.began:
            return []
        if known.all_of_them:
            return spans_of(known.settled, known.began, now)
        return [ThroughputSpan(now - known.began, finished)]

    async def _read_claimed(self, at: float) -> None:
        now = await under_way(self._queue, self._run)
        self._first_seen = {each: self._first_seen.get(each, at) for each in now}
        ended = self._clock.monotonic()
        self._claimed_at = ended + _SAMPLE_SHARE * (ended - at)

    async def _read_samples(self, count: Count, now: float) -> None:
        began = self._clock.monotonic()
        self._timings = await timings(self._queue, self._run)
        if not self._timings.all_of_them and self._first_seen:
            oldest = next(iter(self._first_seen)).job_id
            self._timings = await with_recent(self._queue, self._run, self._timings, oldest)
        if count.pending:
            await self._read_pending(now)
            self._loads = await self._host_loads(now)
        if count.failed != self._failed:
            self._failing, self._failed = await failing(self._queue, self._run), count.failed
        ended = self._clock.monotonic()
        self._samples_at = ended + max(_SAMPLE_SHARE * (ended - began), _SAMPLE_EVERY)

    async def _read_pending(self, now: float) -> None:
        """Read some pages of pending jobs; only one if the queue is slow."""
        began = self._clock.monotonic()
        for _ in range(_PAGES):
            if await self._survey.read(now) or self._clock.monotonic() - began > _PATIENCE:
                return

    async def _host_loads(self, now: float) -> dict[str, HostLoad]:
        """Return the busiest hosts whose known rate limits the run; `jobs` is filled in later."""
        # Imported here because it would double the import time of `status`, and `glance` does not need it.
        from longshore.pacing.choose_store import rate_store_for

        loads = {}
        with closing(rate_store_for(self._queue, self._clock)) as store:
            try:
                for host, _ in self._survey.found.hosts:
                    known = (await store.read(host)).host_rate
                    if known is not None and (rate := _binding_rate(known)):
                        loads[host] = HostLoad(host, 0.0, rate, max(known.closed_until - now, 0.0))
            except LongshoreError:
                # The limits of hosts only refine the estimate, and their file may belong to another user.
                return {}
        return loads

    def _evidence(
        self, lanes: list[Count], active: ActiveWorkers, throughput: Throughput, at: float, now: float
    ) -> Evidence:
        count, waiting = totals(lanes), self._survey.found
        each = count.pending / waiting.read if waiting.read else 0.0
        held = Counter(job.host for job in self._first_seen) if count.claimed else Counter[str]()
        known, finished = self._timings, count.completed + count.failed
        failures = waiting.failures * each + known.failures * finished / max(known.jobs, 1)
        loads = [
            msgspec.structs.replace(self._loads[host], jobs=jobs * each + held[host])
            for host, jobs in waiting.hosts
            if host in self._loads
        ]
        waits = tuple(until - now for until in waiting.until if until > now)
        return Evidence(
            pending=count.pending,
            claimed=count.claimed,
            spans=throughput.spans,
            idle=throughput.idle,
            going=throughput.going,
            seconds=known.seconds,
            ages=tuple(at - seen for seen in self._first_seen.values())[: count.claimed] if count.claimed else (),
            workers=active.workers,
            slots=active.slots,
            pause=active.pause,
            retried=failures / max(failures + finished, 1),
            delayed=waiting.delayed * each if waits else 0.0,
            waits=waits,
            hosts=tuple(loads),
            untaken=kinds_without_worker(active, lanes),
            being_submitted=bool(active.submissions) and active.submissions_unseen is None,
        )


async def wait_for(
    watch: RunWatcher,
    clock: Clock,
    show: Callable[[RunSnapshot], None],
    say: Callable[[str], None],
    *,
    timeout: timedelta | None = None,
    leave: asyncio.Event | None = None,
) -> tuple[WaitEnd, RunSnapshot]:
    """Look until the run has ended, `timeout` is over or `leave` is set. Return why it ended, and the last snapshot.

    Once the queue has answered, wait for it if it becomes unavailable. Raise `NotFoundError` if the run was not there
    at the first look.
    """
    until = float("inf") if timeout is None else clock.monotonic() + timeout.total_seconds()
    leave = leave or asyncio.Event()
    last: RunSnapshot | None = None
    silent = False
    while True:
        try:
            last = await watch.look()
        except PassingQueueError as error:
            if last is None:
                raise
            if not silent:
                say(f"The queue does not answer; waiting for it: {error}")
            silent = True
        except NotFoundError:
            if last is None:
                raise
            return WaitEnd.GONE, last
        else:
            if silent:
                say("The queue answers again.")
            silent = False
            show(last)
            if last.finished:
                return how_it_ended(last.count), last
        now = clock.monotonic()
        if now >= until:
            return WaitEnd.TIMEOUT, last
        pause = min(max(LOOK_EVERY, min(_SHARE * last.took, LONGEST)), until - now)
        await first_of(clock.sleep(pause), leave.wait())
        if leave.is_set():
            return WaitEnd.DETACHED, last


def how_it_ended(count: Count) -> WaitEnd:
    """Return how a run ended whose jobs are all finished."""
    if count.failed:
        return WaitEnd.FAILED
    return WaitEnd.CANCELLED if count.cancelled else WaitEnd.COMPLETED


def _binding_rate(host: HostRate) -> float:
    """Return the requests per second that the host allows; 0 if it does not limit us, or the limit is not known yet."""
    if host.crawl_delay:
        return min(1 / host.crawl_delay, host.rate)
    return host.rate if host.pressed and host.ceiling else 0.0
