"""Job spacing: how many jobs at once, and how long a pause between two. Both may change while the worker runs.

A job begins no sooner than a pause after the last job of this worker began or ended, the later of the two. With a
concurrency of 1, that is the time between the end of one job and the beginning of the next. While there are pauses,
executors take turns, and a job is claimed only when its turn has come: until then any worker may claim it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from longshore.clock import Clock
from longshore.lease import Lease
from longshore.settings import SecondsRange
from longshore.system.first_of import first_of
from longshore.worker.leases.held_leases import HeldLeases


class Retirable(Protocol):
    """An executor, as far as job spacing needs to know it."""

    retired: bool
    """Whether it takes no more jobs."""


class JobSpacing:
    """The concurrency and the pauses of one worker."""

    def __init__(self, concurrency: int, delay: SecondsRange, clock: Clock) -> None:
        self.concurrency = concurrency
        self.delay = delay
        self.pauses = delay.high > 0
        """Whether there are pauses at all."""
        self._clock = clock
        self._last = float("-inf")
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def change(self, concurrency: int, delay: SecondsRange) -> None:
        """Use this concurrency and this delay from now on. A pause under way is drawn again."""
        if not self.pauses:
            # Without pauses, nothing recorded when a job last began or ended.
            self._last = self._clock.monotonic()
        self.concurrency = concurrency
        self.delay = delay
        self.pauses = delay.high > 0
        self.wake()

    def wake(self) -> None:
        """Let every executor that waits for the end of a pause check what has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def next(self, leases: HeldLeases, executor: Retirable) -> Lease | None:
        """Return the next job for this executor, when its turn has come and the pause is over.

        None if something has changed first: the spacing, the executor is retired, or `leases` is closed.
        """
        async with self._turn:
            if executor.retired or leases.closed or not self.pauses or not await self._pause_is_over():
                return None
            lease = await leases.next()
            if lease is not None:
                self._last = self._clock.monotonic()
            return lease

    def ended(self, leases: HeldLeases) -> None:
        """Start the pause from now, because a job has ended. Executors that wait already wait longer."""
        self._last = self._clock.monotonic()
        self.wake()
        leases.recall()

    async def _pause_is_over(self) -> bool:
        """Return True at the end of the pause, False as soon as something has changed."""
        seconds = self._last + self.delay.draw() - self._clock.monotonic()
        if seconds <= 0:
            return True
        changed = self._changed
        await first_of(self._clock.sleep(seconds), changed.wait())
        return not changed.is_set()
