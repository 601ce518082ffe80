"""Hosts that must not be asked now: their jobs are left to wait, and keep nobody from other work (F4)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

from tests.worker.conftest import finish

from longshore.clock import ManualClock
from longshore.errors import SnoozeError
from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.pacing.claim_filter import ClaimFilter
from longshore.pacing.store_shared import SharedRateStore
from longshore.queue import totals
from longshore.worker.leases.held_leases import HeldLeases


class Known:
    """What a test says is known of hosts."""

    def __init__(self, closed: set[str], rooms: dict[str, int]) -> None:
        self._closed = closed
        self._rooms = rooms

    def closed(self) -> frozenset[str]:
        return frozenset(self._closed)

    def room(self, host: str) -> int | None:
        return self._rooms.get(host)


async def hand_with(*hosts: str) -> HeldLeases:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"n": n}, host=host) for n, host in enumerate(hosts)])
    leases: list[Lease] = await queue.claim(Want(worker=WorkerId.new(), limit=100))
    hand = HeldLeases(ManualClock(), timedelta(seconds=60))
    hand.take_in(leases, 0.0)
    return hand


async def test_a_worker_asks_for_nothing_of_hosts_that_are_closed_or_of_which_it_holds_enough() -> None:
    hand = await hand_with("a.test", "a.test", "b.test", "c.test", "")
    known = Known({"z.test"}, {"a.test": 2, "b.test": 2})
    assert ClaimFilter(known, hand).without() == {"z.test", "a.test"}


async def test_who_knows_nothing_asks_for_everything() -> None:
    assert ClaimFilter(None, await hand_with("a.test")).without() == frozenset()


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
