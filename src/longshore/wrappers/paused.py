"""Runs that are paused: nothing of them begins anywhere, until somebody lets them go on.

A note says so, and every worker looks at it now and then. What is claimed already is finished. A worker that works on
all runs claims from the others one by one meanwhile, the one with the most waiting first: between runs, priorities do
not count while one is paused.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, cast

import msgspec

from longshore.clock import Clock
from longshore.extensions.shared_state import SharedState
from longshore.lease import Lease, Want
from longshore.queue import Queue

PAUSED = "runs-paused"
"""The shelf: a note for each run that is paused."""
EVERYTHING = "*"
"""The name of the note that pauses all runs; no run is called so."""
_QUICK_LOOK, _SLOW_LOOK = 3.0, 20.0
"""Seconds for which it counts as known what is paused, where reading notes is quick and where it is not."""


class PausableQueue:
    """A queue as a worker claims from it: jobs of runs that are paused are not there. All else goes through."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._every = _QUICK_LOOK if queue.traits.quick_notes else _SLOW_LOOK
        self._looked = float("-inf")
        self._paused: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(self, want: Want) -> list[Lease]:
        """Claim what is wanted and not paused."""
        await self._look()
        if not self._concerns(want):
            return await self._queue.claim(want)
        if EVERYTHING in self._paused or want.run is not None:
            return []
        pending: Counter[str] = Counter()
        for count in await self._queue.stats():
            if count.pending and count.run not in self._paused:
                pending[count.run] += count.pending
        leases: list[Lease] = []
        for run, _ in pending.most_common():
            if len(leases) >= want.limit:
                break
            leases += await self._queue.claim(msgspec.structs.replace(want, run=run, limit=want.limit - len(leases)))
        return leases

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        """Wait for work; where some is paused, for a moment only: the queue would say that there is work."""
        await self._look()
        if not self._concerns(want):
            return await self._queue.wait(want, timeout)
        await self._clock.sleep(min(timeout.total_seconds(), self._every))
        return False

    def _concerns(self, want: Want) -> bool:
        return bool(self._paused) and (want.run is None or want.run in self._paused or EVERYTHING in self._paused)

    async def _look(self) -> None:
        now = self._clock.monotonic()
        if not self._queue.traits.keeps_notes or now - self._looked < self._every:
            return
        paused = frozenset(note.name for note in (await cast("SharedState", self._queue).notes(PAUSED)).notes)
        self._looked = now
        if paused != self._paused:
            self._tell(paused)
        self._paused = paused

    def _tell(self, paused: frozenset[str]) -> None:
        # Not at the top: who only asks how far a run is would import it, too.
        import structlog

        log = structlog.get_logger()
        for run in sorted(paused - self._paused):
            log.info(f"PAUSED: {_named(run)}. Nothing of it begins; `longshore resume` lets it go on")
        for run in sorted(self._paused - paused):
            log.info(f"RESUMED: {_named(run)}")


def _named(run: str) -> str:
    return "everything" if run == EVERYTHING else f"run {run}"
