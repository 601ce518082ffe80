"""The queue that everything working on jobs must use: timed, counted, within the growth limits, without paused runs.

    medium ◀── call timer ◀── duplicates ◀── growth limits ◀── pause ◀── claim, settle

Code that claims or settles asks for a `WorkerQueue`, so that mypy refuses a bare queue there: on a bare queue it would
take jobs of a paused run, and let a run grow beyond `--max-jobs` and `--max-depth`.
"""

from __future__ import annotations

import asyncio

from longshore.clock import Clock
from longshore.queue import Queue
from longshore.wrappers.call_timer import TimedQueue
from longshore.wrappers.differing_duplicates import DuplicateComparingQueue
from longshore.wrappers.growth_limits import GrowthLimitedQueue
from longshore.wrappers.paused import PausableQueue


class WorkerQueue(PausableQueue):
    """A queue with the wrappers of a worker: the only type of queue to claim from and to settle on."""

    def __init__(
        self, queue: Queue, clock: Clock, *, same_worker: WorkerQueue | None = None, fingerprint: str | None = ""
    ) -> None:
        """`same_worker` is the first connection of a worker that opens a second one: both share their quota of jobs.

        `fingerprint` is that of the published code that the worker runs; empty for a file of its own, None for a
        process that runs no job.
        """
        self.timer = TimedQueue(queue, clock)
        """Knows which calls have no answer yet."""
        holder = None if same_worker is None else same_worker.limits.holder
        self._duplicates = DuplicateComparingQueue(self.timer, clock)
        self.limits: GrowthLimitedQueue = GrowthLimitedQueue(self._duplicates, clock, holder=holder)
        """Drops follow-on jobs beyond the limits of their run."""
        super().__init__(self.limits, clock, fingerprint=fingerprint)

    async def keep(self) -> None:
        """Log and count the follow-on jobs that were left out, every few seconds, until cancelled."""
        await asyncio.gather(self.limits.keep(), self._duplicates.keep())

    async def tell(self) -> None:
        """Log and count the follow-on jobs that were left out since the last call. Call it before `close`."""
        await self.limits.tell()
        await self._duplicates.tell()
