"""A queue that passes every call on to the queue it wraps. A wrapper inherits from it and overrides what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from longshore.job import Attempt, Job, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Count, Queue, Reaped, Selection, Submitted


class QueueWrapper:
    """A `Queue` that delegates the whole contract. Extensions are not delegated: `extensions.find` unwraps."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.traits = queue.traits

    def unwrap(self) -> Queue:
        """Return the wrapped queue."""
        return self._queue

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        return await self._queue.submit(jobs)

    async def claim(self, want: Want) -> list[Lease]:
        return await self._queue.claim(want)

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._queue.renew(worker, lease)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._queue.settle(settlements)

    async def reap(self) -> Reaped:
        return await self._queue.reap()

    async def stats(self, run: str | None = None) -> list[Count]:
        return await self._queue.stats(run)

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        return await self._queue.jobs(selection, after=after, limit=limit)

    async def history(self, job_id: str) -> list[Attempt]:
        return await self._queue.history(job_id)

    async def retry(self, selection: Selection) -> int:
        return await self._queue.retry(selection)

    async def cancel(self, selection: Selection) -> int:
        return await self._queue.cancel(selection)

    async def release(self, selection: Selection) -> int:
        return await self._queue.release(selection)

    async def prune(self, selection: Selection) -> int:
        return await self._queue.prune(selection)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        return await self._queue.wait(want, timeout)

    async def close(self) -> None:
        await self._queue.close()
