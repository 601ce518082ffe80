"""Hosts: within a priority they take turns, and excluded hosts are skipped."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    Scene,
    claim,
    claim_one,
    failure,
    job,
    keys,
    now,
    settle,
)
from longshore.conformance.suite.waiting import settled_in, waiting, woken
from longshore.job import NewJob
from longshore.lease import Lease
from longshore.outcome import Failed, Released
from longshore.queue import Queue

NOTHING = timedelta(0)
BIG = frozenset({"big.test"})


def of(host: str, number: int, **fields: object) -> list[NewJob]:
    """Return `number` jobs of a host; their keys begin with the first two letters of the host."""
    return [job(f"{host[:2]}{n:04}", host=host, **fields) for n in range(number)]


def by_host(leases: list[Lease]) -> Counter[str]:
    return Counter(lease.job.host for lease in leases)


class HostTests(Scene):
    @pytest.mark.parametrize("limit", [1, 2, 3, 10])
    async def test_a_large_host_does_not_keep_a_small_one_waiting(self, queue: Queue, limit: int) -> None:
        await queue.submit(of("big.test", 60))
        await queue.submit(of("small.test", 3))
        first = [lease for _ in range(10 // limit) for lease in await claim(queue, limit=limit)]
        assert by_host(first)["small.test"] == 3

    async def test_every_host_has_a_turn_before_one_has_many(self, queue: Queue) -> None:
        await queue.submit(of("big.test", 200))
        await queue.submit([each for n in range(30) for each in of(f"{n:02}.test", 5)])
        shares = by_host(await claim(queue, limit=62))
        assert len(shares) == 31
        assert max(shares.values()) <= 4

    async def test_a_claim_is_filled_from_the_hosts_that_have_more(self, queue: Queue) -> None:
        await queue.submit([*of("big.test", 10), *of("small.test", 2)])
        assert by_host(await claim(queue, limit=11)) == {"big.test": 9, "small.test": 2}

    async def test_jobs_of_one_host_come_by_age(self, queue: Queue) -> None:
        await queue.submit([each for pair in zip(of("big.test", 9), of("small.test", 9), strict=True) for each in pair])
        taken = [lease.job for _ in range(6) for lease in await claim(queue, limit=3)]
        for host in ("big.test", "small.test"):
            mine = [each.key for each in taken if each.host == host]
            assert mine == sorted(mine)
            assert len(mine) == 9

    async def test_priority_goes_before_turns(self, queue: Queue) -> None:
        await queue.submit([*of("small.test", 2, priority=1), *of("big.test", 5)])
        assert by_host(await claim(queue, limit=5)) == {"big.test": 5}
        assert by_host(await claim(queue, limit=5)) == {"small.test": 2}

    @pytest.mark.parametrize("partitions", [None, frozenset({"CA", "TX", "NY"})], ids=["everywhere", "by partition"])
    async def test_hosts_take_turns_whatever_kinds_and_partitions_they_are_spread_over(
        self, queue: Queue, partitions: frozenset[str] | None
    ) -> None:
        await queue.submit([*of("big.test", 40, partition="CA"), *of("big.test", 40, partition="TX", kind="image")])
        await queue.submit(of("small.test", 3, partition="NY"))
        first = [lease for _ in range(5) for lease in await claim(queue, limit=4, partitions=partitions)]
        assert by_host(first)["small.test"] == 3

    async def test_hosts_that_are_not_wanted_are_passed_over(self, queue: Queue) -> None:
        await queue.submit(of("big.test", 2500))
        await queue.submit([*of("small.test", 2), job("none")])
        assert sorted(keys(await claim(queue, without_hosts=BIG))) == ["none", "sm0000", "sm0001"]
        assert await claim(queue, without_hosts=BIG) == []
        assert by_host(await claim(queue, limit=5)) == {"big.test": 5}

    async def test_jobs_without_a_host_are_those_of_the_host_without_a_name(self, queue: Queue) -> None:
        await queue.submit([job("none"), *of("small.test", 1)])
        assert keys(await claim(queue, without_hosts=frozenset({""}))) == ["sm0000"]

    async def test_hosts_are_passed_over_in_every_partition_and_priority(self, queue: Queue) -> None:
        await queue.submit(of("big.test", 3, partition="CA", priority=-1))
        await queue.submit([*of("big.test", 3, partition="TX", kind="image"), *of("small.test", 1, partition="TX")])
        partitions = frozenset({"CA", "TX"})
        assert keys(await claim(queue, without_hosts=BIG, partitions=partitions)) == ["sm0000"]
        assert len(await claim(queue, partitions=partitions)) == 6

    async def test_a_delayed_job_of_a_host_that_is_not_wanted_waits_on(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(of("big.test", 1, not_before=await now(queue) + 100))
        await harness.advance(110)
        assert await claim(queue, without_hosts=BIG) == []
        assert keys(await claim(queue)) == ["bi0000"]

    async def test_jobs_that_come_back_stay_with_their_host(self, queue: Queue) -> None:
        await queue.submit(of("big.test", 3))
        await settle(queue, await claim_one(queue), Released())
        await settle(queue, await claim_one(queue), Failed(failure(retryable=False)))
        assert await queue.retry(ALL) == 1
        assert await claim(queue, without_hosts=BIG) == []
        assert keys(await claim(queue)) == ["bi0000", "bi0001", "bi0002"]

    async def test_waiting_ignores_jobs_of_excluded_hosts(self, queue: Queue) -> None:
        await queue.submit(of("big.test", 3))
        assert not await waiting(queue, NOTHING, without_hosts=BIG)
        assert await waiting(queue, NOTHING)

    async def test_waiting_ends_when_work_of_another_host_appears(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(of("big.test", 3))
        task = waiting(queue, without_hosts=BIG)
        await settled_in(task, queue)
        await queue.submit(of("small.test", 1))
        assert await woken(harness, queue, task)
