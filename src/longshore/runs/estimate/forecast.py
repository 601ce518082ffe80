"""Watching a run with an eye on what is to come: hosts that are closed, jobs that jobs lead to, kinds not met yet."""

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

_FREE = 1000.0
"""The rate that stands for one that holds nobody back."""
_CLOSURES_EVERY = _HELD_EVERY = 5.0
"""Seconds for which it counts as known what is closed, and what is paused."""


class Forecast(RunWatcher):
    """A watch whose estimates know of these, too."""

    def __init__(self, queue: Queue, run: str, clock: Clock) -> None:
        super().__init__(queue, run, clock)
        self._growth = GrowthWatch()
        self._closed: dict[str, float] = {}
        """Until when hosts are closed, in monotonic seconds."""
        self._closures_at = self._held_at = float("-inf")
        self.held = Blockers()
        """What holds it up, as of the last look or some seconds before."""

    async def look(self) -> RunSnapshot:
        """How it stands now. `NotFoundError` where the queue has no such run, or has it no more."""
        return await self._foreseen(await super().look())

    async def glance(self) -> RunSnapshot:
        """The same from the counters and two pages of jobs: at once, and less sure of the time left."""
        now = await self._medium_time()
        await self._survey.read(now)
        self._loads = await self._host_loads(now)
        return await self._foreseen(await super().glance())

    async def _foreseen(self, look: RunSnapshot) -> RunSnapshot:
        self._growth.note(look.lanes)
        if look.at - self._held_at >= _HELD_EVERY:
            self._held_at, self.held = look.at, await blockers_of(self._queue, self._run)
        grows, known = self._growth.growth(look.lanes, self.held.limits.max_jobs), look.evidence
        evidence = msgspec.structs.replace(
            known,
            paused=bool(self.held.paused),
            hosts=(*known.hosts, *await self._closed_hosts(look)),
            more=grows.more,
            more_doubt=grows.doubt,
            generations=grows.generations,
            unmet=_unmet(look),
        )
        return msgspec.structs.replace(look, evidence=evidence)

    async def _closed_hosts(self, look: RunSnapshot) -> list[HostLoad]:
        """What waits for hosts that are closed, and of which no more is known than that."""
        waiting, known = self._survey.found, {load.host for load in look.evidence.hosts}
        if not look.count.pending or not waiting.read:
            return []
        if look.at - self._closures_at >= _CLOSURES_EVERY:
            self._closures_at, self._closed = look.at, await self._closures(look.at)
        each = look.count.pending / waiting.read
        return [
            HostLoad(host, jobs * each, _FREE, self._closed[host] - look.at)
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


def _unmet(look: RunSnapshot) -> float:
    """How much of what is left is of kinds that are rarer, or not there at all, among what has finished."""
    left, met = Counter[str](), Counter[str]()
    for lane in look.lanes:
        left[lane.kind] += lane.remaining
        met[lane.kind] += lane.completed + lane.failed
    return sum(
        max(number / max(left.total(), 1) - met[kind] / max(met.total(), 1), 0.0) for kind, number in left.items()
    )
