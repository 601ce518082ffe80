"""Paused runs: no worker starts a job of a paused run until the run is resumed.

A shared entry says that a run is paused, and every worker reads the entries every few seconds. Jobs that are claimed
already are finished. While a run is paused, a worker for all runs claims from the other runs one after another, the run
with the most pending jobs first; priorities do not count between runs during that time.

A worker treats a run in the same way if it is pinned to another version of the handlers than the worker runs. A file of
a user's own is another version than every published one.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import msgspec

from longshore.clock import Clock
from longshore.extensions.find import find
from longshore.extensions.published_code import read_pins
from longshore.extensions.shared_state import SharedState
from longshore.lease import Lease, Want
from longshore.queue import Queue
from longshore.wrappers.queue_wrapper import QueueWrapper

PAUSED = "runs-paused"
"""The namespace with an entry for each paused run."""
EVERYTHING = "*"
"""The name of the entry that pauses all runs; no run has this name."""
_QUICK_LOOK, _SLOW_LOOK = 3.0, 20.0
"""Seconds between two reads of the entries, on media where reading is quick and on the others."""


class PausableQueue(QueueWrapper):
    """A queue that hides the jobs of paused runs from `claim` and `wait`."""

    def __init__(self, queue: Queue, clock: Clock, *, fingerprint: str | None = "") -> None:
        """`fingerprint` is that of the published code that the worker runs; empty for a file of its own.

        With None the pins of runs do not matter, because this process runs no job.
        """
        super().__init__(queue)
        self._clock = clock
        self._fingerprint = fingerprint
        self._pins = None if fingerprint is None else find(queue, SharedState)
        self._state = None if queue.traits.keeps_limits else find(queue, SharedState)
        self._every = _QUICK_LOOK if queue.traits.quick_shared_state else _SLOW_LOOK
        self._looked = float("-inf")
        self._changes = 0
        self._paused: frozenset[str] = frozenset()
        self._elsewhere: frozenset[str] = frozenset()

    @property
    def pinned_elsewhere(self) -> frozenset[str]:
        """The runs that are pinned to another version than that of this worker, as far as it has looked."""
        return self._elsewhere

    def look_again(self) -> None:
        """Read the entries before the next claim: they have been changed. From the loop of the queue."""
        self._looked = float("-inf")
        self._changes += 1

    async def claim(self, want: Want) -> list[Lease]:
        """Claim wanted jobs of runs that are not paused."""
        await self._look()
        if not self._concerns(want):
            return await self._queue.claim(want)
        if EVERYTHING in self._paused or want.run is not None:
            return []
        hidden = self._paused | self._elsewhere
        pending: Counter[str] = Counter()
        for count in await self._queue.stats():
            if count.pending and count.run not in hidden:
                pending[count.run] += count.pending
        leases: list[Lease] = []
        for run, _ in pending.most_common():
            if len(leases) >= want.limit:
                break
            leases += await self._queue.claim(msgspec.structs.replace(want, run=run, limit=want.limit - len(leases)))
        return leases

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        """Wait for work. If a wanted run is paused, only sleep: the queue would report its paused jobs as work."""
        await self._look()
        if not self._concerns(want):
            return await self._queue.wait(want, timeout)
        await self._clock.sleep(min(timeout.total_seconds(), self._every))
        return False

    def _concerns(self, want: Want) -> bool:
        hidden = self._paused | self._elsewhere
        return bool(hidden) and (want.run is None or want.run in hidden or EVERYTHING in self._paused)

    async def _look(self) -> None:
        now = self._clock.monotonic()
        if (self._state is None and self._pins is None) or now - self._looked < self._every:
            return
        changes = self._changes
        paused: frozenset[str] = frozenset()
        if self._state is not None:
            paused = frozenset(entry.name for entry in (await self._state.read_entries(PAUSED)).entries)
        elsewhere: frozenset[str] = frozenset()
        if self._pins is not None:
            pins = await read_pins(self._pins)
            elsewhere = frozenset(run for run, pinned in pins.items() if pinned != self._fingerprint)
        if changes == self._changes:
            self._looked = now
        if paused != self._paused or not elsewhere <= self._elsewhere:
            self._tell(paused, elsewhere)
        self._paused, self._elsewhere = paused, elsewhere

    def _tell(self, paused: frozenset[str], elsewhere: frozenset[str]) -> None:
        # Imported here to keep start-up quick for commands that only read the state of a run.
        import structlog

        log = structlog.get_logger()
        for run in sorted(paused - self._paused):
            log.info(f"PAUSED: {_named(run)}. No job of it starts; `longshore resume {_again(run)}` continues it")
        for run in sorted(self._paused - paused):
            log.info(f"RESUMED: {_named(run)}")
        for run in sorted(elsewhere - self._elsewhere):
            log.info(f"PINNED: run {run}, to another version of the handlers. No job of it starts here")


def _again(run: str) -> str:
    return "--all" if run == EVERYTHING else run


def _named(run: str) -> str:
    return "everything" if run == EVERYTHING else f"run {run}"
