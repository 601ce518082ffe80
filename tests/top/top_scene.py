"""A queue whose jobs do what a test says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.job import new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.queue import Queue

LEASE = timedelta(seconds=60)


class Scene:
    """A run with jobs in every state, and who works on it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.worker = WorkerId("w-1", "w-1/1")

    async def submit(
        self, count: int, *, run: str = "r", kind: str = "page", host: str = "a.org", **given: Any
    ) -> None:
        """So many jobs, numbered from 1."""
        jobs = [new_job(kind, {"url": f"https://{host}/{n}"}, run=run, **given) for n in range(1, count + 1)]
        await self.queue.submit(jobs)

    async def claim(self, count: int, **given: Any) -> list[Lease]:
        """Let the worker take so many."""
        return await self.queue.claim(Want(worker=self.worker, limit=count, lease=LEASE, **given))

    async def settle(self, leases: list[Lease], outcome: Outcome) -> None:
        """They all end so."""
        assert all(await self.queue.settle([Settlement(lease, outcome, 0.5) for lease in leases]))

    async def complete(self, count: int, **given: Any) -> None:
        """Take so many and complete them."""
        await self.settle(await self.claim(count, **given), Completed({"ok": True}))

    async def fail(self, count: int, message: str = "Page {} has no title", *, retryable: bool = False) -> None:
        """Take so many and let them fail."""
        for lease in await self.claim(count):
            failure = Failure("unknown", message.format(lease.job.payload["url"]), "ValueError", retryable=retryable)
            await self.settle([lease], Failed(failure, retry_in=timedelta(hours=1)))

    async def register(self, label: str, info: WorkerInfo) -> None:
        """A worker says that it is there."""
        await require(self.queue, WorkerRegistry, "lacks it").register(WorkerId(label, f"{label}/1"), LEASE, info)
