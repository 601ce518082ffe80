"""Hosts that must not be asked now: their jobs are left to wait, and keep nobody from other work (F4)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from tests.worker.conftest import finish

from longshore.clock import ManualClock
from longshore.errors import SnoozeError
from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.pacing.claim_filter import excluded_hosts
from longshore.pacing.store_shared import SharedRateStore
from longshore.queue import totals


class Known:
    """What a test says is known of hosts."""

    def __init__(self, closed: set[str], capacities: dict[str, int]) -> None:
        self._closed = closed
        self._capacities = capacities

    def closed_hosts(self) -> frozenset[str]:
        return frozenset(self._closed)

    def capacity(self, host: str) -> int | None:
        return self._capacities.get(host)


def test_a_worker_claims_nothing_of_hosts_that_are_closed_or_of_which_it_holds_enough() -> None:
    held = ["a.test", "a.test", "b.test", "c.test", ""]
    known = Known({"z.test"}, {"a.test": 2, "b.test": 2})
    assert excluded_hosts(known, held) == {"z.test", "a.test"}


async def test_a_closed_host_waits_and_the_others_are_served(clock: ManualClock, run_worker: Any) -> None:
    queue = MemoryQueue(clock)
    await SharedRateStore(queue).close_host("closed.test", clock.now() + 600)
    await queue.submit([new_job("page", {"url": f"https://closed.test/{n}"}) for n in range(50)])
    await queue.submit([new_job("page", {"url": f"https://open.test/{n}"}) for n in range(5)])
    begun: list[tuple[str, float]] = []

    @handler("page")
    async def page(job: Any) -> None:
        begun.append((job.host, clock.now()))

    start = clock.now()
    task = asyncio.create_task(run_worker(queue, page, clock=clock))
    report = await finish(task, clock)
    assert report.completed == 55
    early = [host for host, at in begun if at < start + 590]
    # The first claim may come before the worker has looked which hosts are closed.
    assert early.count("open.test") == 5
    assert early.count("closed.test") <= 4


async def test_a_snoozed_job_costs_no_attempt_and_comes_back(clock: ManualClock, run_worker: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {})])
    tries: list[float] = []

    @handler("page")
    async def page(job: Any) -> int:
        tries.append(clock.now())
        if len(tries) < 4:
            raise SnoozeError("too soon", 100)
        return int(job.attempt)

    task = asyncio.create_task(run_worker(queue, page, clock=clock))
    report = await finish(task, clock)
    assert report.completed == 1
    assert report.snoozed == 3
    assert totals(await queue.stats()).completed == 1
    assert min(later - sooner for sooner, later in pairwise(tries)) >= 100
