"""The wrappers of a worker's queue, and a second connection of the same worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from longshore.clock import ManualClock
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.wrappers.worker_queue import WorkerQueue


class Hangs(MemoryQueue):
    """Does not answer the first settlement, and writes nothing of it."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.asked = asyncio.Event()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if not self.asked.is_set():
            self.asked.set()
            await asyncio.Event().wait()
        return await super().settle(settlements)


@pytest.mark.parametrize(("same_worker", "size"), [(True, 5), (False, 1)])
async def test_a_second_connection_uses_the_quota_that_the_first_has_taken(same_worker: bool, size: int) -> None:
    """The first is the blocked event loop of a worker, the second its watchdog. Another worker must not have it."""
    queue = Hangs()
    await set_limits(queue, "r", GrowthLimits(max_jobs=5))
    await queue.submit([new_job("page", {"number": 0}, run="r")])
    [lease] = await queue.claim(Want(worker=WorkerId.new("w")))
    found = tuple(new_job("page", {"number": number}) for number in range(1, 9))
    first = WorkerQueue(queue, ManualClock())
    blocked = asyncio.create_task(first.settle([Settlement(lease, Completed(None, found))]))
    await queue.asked.wait()
    second = WorkerQueue(queue, ManualClock(), same_worker=first if same_worker else None)
    assert await second.settle([Settlement(lease, Completed(None, found))]) == [True]
    assert totals(await queue.stats("r")).total == size
    blocked.cancel()
