"""Watching a run from anywhere until it ends: nothing is changed, and it goes on whether anyone watches or not."""

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
from longshore.errors import LongshoreError, NotFoundError, QueueUnavailableError
from longshore.extensions.find import find
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
from longshore.runs.watch.active_workers import ActiveWorkers, active_workers, untaken
from longshore.system.first_of import first_of

if TYPE_CHECKING:
    from longshore.pacing.host_rate import HostRate

LOOK_EVERY, LONGEST = 1.0, 15.0
"""Seconds between two looks: on a queue that answers at once, and on one that takes its time."""
_SHARE = 10
"""Looking takes this part of the time at most, so that a watcher is no burden to those who work."""
_DEEP_SHARE, _DEEP_EVERY = 20, 2.0
"""The same for reading jobs, which is done every so many seconds at most."""
_PAGES, _PATIENCE = 5, 0.5
"""Pages of pending jobs read at a time, and seconds after which it is enough of them."""

_NO_NOTES = "pace"
"""A shelf of which no note is asked for: what counts is the time in the answer."""


class WaitEnd(StrEnum):
    """How waiting for a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    """All are finished and some failed."""
    CANCELLED = "cancelled"
    """All are finished, none failed, and some were cancelled."""
    GONE = "gone"
    """Its jobs have been pruned since the last look: how it ended, nobody can say any more."""
    TIMEOUT = "timeout"
    DETACHED = "detached"
    """Whoever watched left."""


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands at one moment."""

    at: float
    """Monotonic seconds."""
    took: float
    """Seconds that the queue needed for its counts."""
    lanes: tuple[Count, ...]
    """By kind and partition."""
    count: Count
    """Their sum."""
    hands: ActiveWorkers
    evidence: Evidence
    per_second: float
    """Jobs finished a second, lately."""
    failing: tuple[tuple[str, int], ...] = ()
    """What jobs failed of, the most frequent first: of all, or the first few hundred."""

    @property
    def estimate(self) -> Estimate:
        """When it will be done. Worked out when asked for: it costs some tens of milliseconds."""
        return estimate(self.evidence)

    @property
    def unattended(self) -> bool:
        """Whether work is left and nobody seems to be at it."""
        return unattended(self.evidence)


class RunWatcher:
    """Looks at one run again and again, and learns how fast it goes."""

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
        self._claimed_at = self._deep_at = float("-inf")

    async def look(self) -> RunSnapshot:
        """How it stands now. `NotFoundError` where the queue has no such run, or has it no more."""
        began = self._clock.monotonic()
        lanes, at = await self._counts(), self._clock.monotonic()
        now, count = await self._medium_time(), totals(lanes)
        if count.claimed and at >= self._claimed_at:
            await self._look_at_claimed(at)
        if at >= self._deep_at:
            await self._look_deep(count, now)
        return await self._seen(lanes, at, now, at - began)

    async def glance(self) -> RunSnapshot:
        """The same from the counters and one page of jobs: at once, and less sure of the time left."""
        lanes, at = await self._counts(), self._clock.monotonic()
        self._timings = await timings(self._queue, self._run, pages=1)
        return await self._seen(lanes, at, await self._medium_time(), 0.0)

    async def _counts(self) -> list[Count]:
        lanes = await self._queue.stats(self._run)
        if totals(lanes).total:
            return lanes
        raise NotFoundError(f"There is no run '{self._run}'. If there was one, its jobs have been pruned.")

    async def _seen(self, lanes: list[Count], at: float, now: float, took: float) -> RunSnapshot:
        count = totals(lanes)
        hands = await active_workers(self._queue, self._run, claimed=count.claimed)
        finished = count.completed + count.failed
        if self._throughput is None:
            self._throughput = Throughput(self._before(finished, now))
        self._throughput.note(at, finished, hands.slots or hands.workers)
        return RunSnapshot(
            at=at,
            took=took,
            lanes=tuple(lanes),
            count=count,
            hands=hands,
            evidence=self._evidence(lanes, hands, self._throughput, at, now),
            per_second=self._throughput.per_second,
            failing=tuple(self._failing.most_common()),
        )

    async def survey(self, seconds: float) -> None:
        """Read what is pending through, for so many seconds at most: the next look knows the hosts the better."""
        until = self._clock.monotonic() + seconds
        while not self._survey.through and self._clock.monotonic() < until:
            await self._survey.read(await self._medium_time())

    async def _medium_time(self) -> float:
        state = find(self._queue, SharedState)
        return self._clock.now() if state is None else (await state.read_entries(_NO_NOTES, frozenset())).now

    def _before(self, finished: int, now: float) -> list[ThroughputSpan]:
        """What the jobs that are finished already tell about the time before the first look."""
        known = self._timings
        if known.began is None or now <= known.began:
            return []
        if known.all_of_them:
            return spans_of(known.settled, known.began, now)
        return [ThroughputSpan(now - known.began, finished)]

    async def _look_at_claimed(self, at: float) -> None:
        now = await under_way(self._queue, self._run)
        self._first_seen = {each: self._first_seen.get(each, at) for each in now}
        ended = self._clock.monotonic()
        self._claimed_at = ended + _DEEP_SHARE * (ended - at)

    async def _look_deep(self, count: Count, now: float) -> None:
        began = self._clock.monotonic()
        self._timings = await timings(self._queue, self._run)
        if not self._timings.all_of_them and self._first_seen:
            oldest = next(iter(self._first_seen)).job_id
            self._timings = await with_recent(self._queue, self._run, self._timings, oldest)
        if count.pending:
            await self._read_on(now)
            self._loads = await self._host_loads(now)
        if count.failed != self._failed:
            self._failing, self._failed = await failing(self._queue, self._run), count.failed
        ended = self._clock.monotonic()
        self._deep_at = ended + max(_DEEP_SHARE * (ended - began), _DEEP_EVERY)

    async def _read_on(self, now: float) -> None:
        """Some pages of what is pending; one where that takes its time."""
        began = self._clock.monotonic()
        for _ in range(_PAGES):
            if await self._survey.read(now) or self._clock.monotonic() - began > _PATIENCE:
                return

    async def _host_loads(self, now: float) -> dict[str, HostLoad]:
        """The hosts with the most work whose rate is known and holds requests back; their jobs are filled in later."""
        # Half of what `status` would import, and a glance has no use for it.
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
        self, lanes: list[Count], hands: ActiveWorkers, throughput: Throughput, at: float, now: float
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
            workers=hands.workers,
            slots=hands.slots,
            retried=failures / max(failures + finished, 1),
            delayed=waiting.delayed * each if waits else 0.0,
            waits=waits,
            hosts=tuple(loads),
            untaken=untaken(hands, lanes),
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
    """Look until the run has ended, the time is over, or somebody wants to leave; and how it stood at the last look.

    A queue that does not answer for a while is waited for, once it has answered the first time. `NotFoundError` where
    the run was not there at the first look.
    """
    until = float("inf") if timeout is None else clock.monotonic() + timeout.total_seconds()
    leave = leave or asyncio.Event()
    last: RunSnapshot | None = None
    silent = False
    while True:
        try:
            last = await watch.look()
        except QueueUnavailableError as error:
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
            if not last.count.remaining:
                return how_it_ended(last.count), last
        now = clock.monotonic()
        if now >= until:
            return WaitEnd.TIMEOUT, last
        pause = min(max(LOOK_EVERY, min(_SHARE * last.took, LONGEST)), until - now)
        await first_of(clock.sleep(pause), leave.wait())
        if leave.is_set():
            return WaitEnd.DETACHED, last


def how_it_ended(count: Count) -> WaitEnd:
    """How a run ended whose jobs are all finished and stand so."""
    if count.failed:
        return WaitEnd.FAILED
    return WaitEnd.CANCELLED if count.cancelled else WaitEnd.COMPLETED


def _binding_rate(standing: HostRate) -> float:
    """How many requests a second the host lets through; 0 where that holds nobody back, or is still being learned."""
    if standing.crawl_delay:
        return min(1 / standing.crawl_delay, standing.rate)
    return standing.rate if standing.pressed and standing.ceiling else 0.0
