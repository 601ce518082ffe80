"""Watch a run and forecast its end with closed hosts, follow-on jobs and kinds of which no job has finished yet."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import msgspec

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.pacing.choose_store import rate_store_for
from longshore.queue import Queue
from longshore.runs.estimate.estimate import HostLoad
from longshore.runs.estimate.growth import GrowthWatch
from longshore.runs.watch.blockers import Blockers, blockers_of
from longshore.runs.watch.watcher import RunSnapshot, RunWatcher

_UNLIMITED = 1000.0
"""The rate of a host that does not limit the run."""
_CLOSURES_EVERY = _BLOCKERS_EVERY = 5.0
"""Seconds between two readings of closed hosts, and of pauses and limits."""


class Forecast(RunWatcher):
    """A watcher whose evidence includes closed hosts, follow-on jobs, pauses and unfamiliar kinds."""

    def __init__(self, queue: Queue, run: str, clock: Clock) -> None:
        super().__init__(queue, run, clock)
        self._growth = GrowthWatch()
        self._closed: dict[str, float] = {}
        """Closed hosts, with the monotonic time until which they are closed."""
        self._closures_at = self._blockers_at = float("-inf")
        self.blockers = Blockers()
        """Pauses and limits, as of the last look or some seconds before."""

    def expire(self) -> None:
        """Let the next look read the pauses and limits again."""
        self._blockers_at = float("-inf")

    async def look(self) -> RunSnapshot:
        """Return a snapshot. Raise `NotFoundError` if the queue does not have the run, or no longer has it."""
        return await self._with_forecast(await super().look())

    async def glance(self) -> RunSnapshot:
        """Return a snapshot from the counters and two pages of jobs: fast, with a less certain estimate."""
        now = await self._medium_time()
        await self._survey.read(now)
        self._loads = await self._host_loads(now)
        return await self._with_forecast(await super().glance())

    async def _with_forecast(self, look: RunSnapshot) -> RunSnapshot:
        self._growth.add(look.lanes)
        if look.at - self._blockers_at >= _BLOCKERS_EVERY:
            self._blockers_at, self.blockers = look.at, await blockers_of(self._queue, self._run)
        grows, known = self._growth.growth(look.lanes, self.blockers.limits.max_jobs), look.evidence
        evidence = msgspec.structs.replace(
            known,
            paused=bool(self.blockers.paused),
            hosts=(*known.hosts, *await self._closed_hosts(look)),
            more=grows.more,
            more_doubt=grows.doubt,
            generations=grows.generations,
            unmet=_unmet_share(look),
        )
        return msgspec.structs.replace(look, evidence=evidence)

    async def _closed_hosts(self, look: RunSnapshot) -> list[HostLoad]:
        """Return the closed hosts with pending jobs whose rate is not known."""
        waiting, known = self._survey.found, {load.host for load in look.evidence.hosts}
        if not look.count.pending or not waiting.read:
            return []
        if look.at - self._closures_at >= _CLOSURES_EVERY:
            self._closures_at, self._closed = look.at, await self._closures(look.at)
        each = look.count.pending / waiting.read
        return [
            HostLoad(host, jobs * each, _UNLIMITED, self._closed[host] - look.at)
            for host, jobs in waiting.hosts
            if host not in known and self._closed.get(host, 0.0) > look.at
        ]

    async def _closures(self, at: float) -> dict[str, float]:
        closed = dict[str, float]()
        with closing(rate_store_for(self._queue, self._clock)) as store:
            try:
                for host, _ in self._survey.found.hosts:
                    stored = await store.read(host)
                    if stored.host_rate is not None and stored.host_rate.closed_until > stored.now:
                        closed[host] = at + stored.host_rate.closed_until - stored.now
            except LongshoreError:
                # The limits of hosts only refine the estimate, and their file may belong to another user.
                return {}
        return closed


def _unmet_share(look: RunSnapshot) -> float:
    """Return the share of the remaining jobs whose kinds are underrepresented among the finished ones."""
    left, finished = Counter[str](), Counter[str]()
    for lane in look.lanes:
        left[lane.kind] += lane.remaining
        finished[lane.kind] += lane.completed + lane.failed
    return sum(
        max(number / max(left.total(), 1) - finished[kind] / max(finished.total(), 1), 0.0)
        for kind, number in left.items()
    )
