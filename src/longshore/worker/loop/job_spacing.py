"""The tempo of a worker: how many jobs at once, and how long a pause between two. Both may change while it runs.

A job begins no sooner than a pause after the last one of this worker began or ended, whichever came later; where jobs
are run one at a time, that is the time between the end of one and the beginning of the next. While there are pauses,
runners take turns, and a job is claimed only when its turn has come: until then it is anybody's.
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
    """Who takes turns."""

    retired: bool
    """It is to take no more jobs."""


class JobSpacing:
    """What the claimer and the runners go by."""

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
        """From now on, so many at once and such pauses; one that is under way is drawn anew."""
        if not self.pauses:
            # When a job last began or ended was of no interest until now.
            self._last = self._clock.monotonic()
        self.concurrency = concurrency
        self.delay = delay
        self.pauses = delay.high > 0
        self.look_up()

    def look_up(self) -> None:
        """Something has changed: whoever waits for a pause to end looks around first."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def next(self, hand: HeldLeases, runner: Retirable) -> Lease | None:
        """The next job for this runner, when its turn has come and the pause is over.

        None where it should look around first: the tempo has changed, the runner is retired, or the hand is closed.
        """
        async with self._turn:
            if runner.retired or hand.closed or not self.pauses or not await self._pause_is_over():
                return None
            lease = await hand.next()
            if lease is not None:
                self._last = self._clock.monotonic()
            return lease

    def ended(self, hand: HeldLeases) -> None:
        """A job has ended: the pause counts from here, also for whoever waits already, for its end or for a job."""
        self._last = self._clock.monotonic()
        self.look_up()
        hand.recall()

    async def _pause_is_over(self) -> bool:
        """True once it is; False where something changed before."""
        seconds = self._last + self.delay.draw() - self._clock.monotonic()
        if seconds <= 0:
            return True
        changed = self._changed
        await first_of(self._clock.sleep(seconds), changed.wait())
        return not changed.is_set()
