"""The claimer: claims jobs before the executors need them, and waits if there are none.

It ends when the worker stops. Between two claims it asks the stop conditions.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from longshore.lease import Lease
from longshore.pacing.claim_filter import HOST_LOOK_SECONDS
from longshore.system.backoff import Backoff
from longshore.system.first_of import first_of
from longshore.worker.context import WorkerContext
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.job_source import JobSource
from longshore.worker.loop.prefetch import Prefetch
from longshore.worker.loop.reaper import Reaper
from longshore.worker.loop.start_gate import Gatekeeper
from longshore.worker.loop.stop_check import CHECK_SECONDS, StopCheck

_FIRST_WAIT_SHARE = 0.1
"""The first wait for work, as a share of the longest: a few empty polls then take a while, as people expect."""
_RUN_LOOK_SECONDS = (0.5, 2.0)
"""How often a waiting worker asks whether its run is finished: at first, and when it has waited long."""
_WAITING_CHECK_SECONDS = 5.0
"""How often a waiting worker asks the stop conditions."""


class Claimer:
    """The loop that claims jobs for one worker."""

    def __init__(
        self,
        context: WorkerContext,
        source: JobSource,
        prefetch: Prefetch,
        stop_check: StopCheck,
        reaper: Reaper,
        gatekeeper: Gatekeeper,
        events: EventResponder,
        stopping: asyncio.Event,
    ) -> None:
        """`stopping` is set by the worker's shutdown: then nothing more is claimed."""
        self._clock = context.clock
        self._reporter = context.reporter
        self._counters = context.counters
        self._in_flight = context.in_flight
        self._lease_seconds = context.config.lease.total_seconds()
        self._one_clock = context.queue.traits.one_clock
        self._source = source
        self._prefetch = prefetch
        self._stop_check = stop_check
        self._idleness = stop_check.idleness
        self._reaper = reaper
        self._gate_open = gatekeeper.open
        self._events = events
        self._stopping = stopping
        self._hinted = False
        """Whether the queue has just reported that there may be work."""
        longest = context.config.poll_interval.total_seconds()
        self._waits = Backoff(_FIRST_WAIT_SHARE * longest, longest)
        self._lost_races = Backoff(0.005, longest)

    async def run(self) -> None:
        """Claim until the worker stops."""
        self._reporter.looking()
        need = self._in_flight.leases.need
        while not self._stopping.is_set():
            need.clear()
            if self._stop_check.holds_now():
                return
            if not self._gate_open.is_set():
                if await self._stops_at_gate():
                    return
                continue
            limit = self._claim_size()
            if limit <= 0:
                if await self._stops_between_jobs():
                    return
                await first_of(need.wait(), self._stopping.wait(), timeout=CHECK_SECONDS)
                continue
            leases = await self._source.claim(limit)
            if leases is None:
                if not self._in_flight.count:
                    self._idleness.empty_polls += 1
                continue
            self._prefetch.claim_took(self._in_flight.leases.now() - self._source.claim_began)
            self._counters.count_claimed(leases, self._lease_seconds, one_clock=self._one_clock)
            if self._stopping.is_set():
                self._in_flight.give_back(leases)
                return
            if not self._gate_open.is_set():
                self._in_flight.give_back(leases)
                continue
            if leases:
                self._take_in(leases)
                await asyncio.sleep(0)  # the executors begin before the next claim is made
                continue
            if self._hinted:
                await self._lost_race()
            if self._in_flight.count:
                await self._wait_beside_work()
            elif await self._stops_while_idle():
                return

    def _claim_size(self) -> int:
        size = self._prefetch.size()
        if size <= 0:
            return 0
        quota = self._stop_check.quota()
        return size if quota is None else min(size, quota)

    def _take_in(self, leases: list[Lease]) -> None:
        held = self._in_flight.leases
        # The lease expired and we claimed the same job again: end the attempt still running under the old lease.
        if outdated := [old for lease in leases if (old := held.held.get(lease.job.id)) is not None]:
            self._events.lost(outdated)
        self._reporter.hosts_closed(frozenset())
        self._waits.reset()
        self._lost_races.reset()
        self._hinted = False
        self._idleness.end()
        held.take_in(leases, self._source.claim_began)
        self._reporter.claimed(leases)

    async def _stops_at_gate(self) -> bool:
        """Wait until the start gate opens (see `start_gate`). Return True if a stop condition holds before that."""
        while not self._stopping.is_set():
            await first_of(self._clock.sleep(_WAITING_CHECK_SECONDS), self._stopping.wait(), self._gate_open.wait())
            # A worker that may not look for work cannot know that there is none.
            self._idleness.restart()
            if self._gate_open.is_set():
                return False
            if await self._stop_check.holds_while_waiting():
                return True
        return False

    async def _stops_between_jobs(self) -> bool:
        """Return whether a stop condition holds between two spaced jobs, so that the worker need not wait for the next.

        Asks the queue for the counts of the run, at most every two seconds, and only if nothing is in flight.
        """
        now, idleness = self._clock.monotonic(), self._idleness
        if (
            not (self._prefetch.spaced and self._stop_check.watches_run)
            or self._in_flight.count
            or now - idleness.run_asked_at < _RUN_LOOK_SECONDS[1]
        ):
            return False
        idleness.run_asked_at = now
        return await self._stop_check.holds_while_waiting()

    async def _lost_race(self) -> None:
        """Wait a little: the queue reported work, and another worker was faster."""
        self._counters.lost_races += 1
        self._reporter.lost_race()
        # The wait grows with each lost race in a row; otherwise all workers would rush at every new job together.
        await first_of(self._clock.sleep(self._lost_races.next()), self._stopping.wait())

    async def _wait_beside_work(self) -> None:
        """Wait for new work, or for the end of what is in flight."""
        skipped = bool(self._source.skipped_hosts)
        wait = timedelta(seconds=min(self._waits.next(), HOST_LOOK_SECONDS if skipped else _WAITING_CHECK_SECONDS))
        await self._reaper.reap()
        others = [self._stopping.wait(), self._idleness.began.wait(), self._source.scope.changed()]
        if skipped:
            # When a job ends, another of its host may be claimed.
            others.append(self._in_flight.leases.need.wait())
        self._hinted = await first_of(self._source.wait(wait), *others) is True

    async def _stops_while_idle(self) -> bool:
        """Wait with nothing to claim and nothing in flight. Return True if a stop condition holds."""
        if await self._reaper.reap():
            return False
        skipped = self._source.skipped_hosts
        if skipped:
            # There may be jobs of hosts that take no requests now. That is no reason to stop.
            self._idleness.restart()
        elif not self._hinted:
            self._idleness.empty_polls += 1
        snapshot = await self._stop_check.full_snapshot()
        if snapshot is None:
            return False
        if self._stop_check.holds(snapshot):
            return True
        wait = min(self._waits.next(), HOST_LOOK_SECONDS) if skipped else self._waits.next()
        if (idle_left := self._stop_check.idle_left(snapshot)) is not None:
            wait = min(wait, idle_left)
        if skipped:
            self._reporter.hosts_closed(skipped)
        else:
            self._reporter.no_work(snapshot, wait)
        until = self._clock.monotonic() + wait
        while (left := until - self._clock.monotonic()) > 0 and not self._stopping.is_set():
            waiting = self._source.wait(timedelta(seconds=min(left, self._look_seconds())))
            self._hinted = await first_of(waiting, self._stopping.wait(), self._source.scope.changed()) is True
            if self._hinted:
                break
            if await self._stop_check.holds_while_waiting():
                return True
        return False

    def _look_seconds(self) -> float:
        """Return how long to wait before the next look at the run: the longer the worker has waited, the longer."""
        if not self._stop_check.watches_run:
            return _WAITING_CHECK_SECONDS
        soonest, latest = _RUN_LOOK_SECONDS
        return min(latest, max(soonest, 0.1 * self._idleness.seconds))
