"""Claiming: which worker gets which job, and in which order."""

from __future__ import annotations

import asyncio

from longshore.conformance.harness import Harness
from longshore.conformance.scene import LEASE, Scene, claim, claim_one, find, job, jobs, keys, now, settle
from longshore.job import State
from longshore.lease import WorkerId
from longshore.outcome import Released
from longshore.queue import Queue


class ClaimingTests(Scene):
    async def test_a_claimed_job_is_held_by_its_worker(self, queue: Queue) -> None:
        await queue.submit([job("a", partition="CA", payload={"n": 1})])
        worker = WorkerId.new("anna")
        started = await now(queue)
        lease = await claim_one(queue, worker)
        assert lease.worker == worker
        assert (lease.job.key, lease.job.payload, lease.job.partition) == ("a", {"n": 1}, "CA")
        assert (lease.job.state, lease.job.epoch, lease.job.attempt) == (State.CLAIMED, 1, 1)
        assert lease.deadline >= started + LEASE.total_seconds() * 0.99
        there = await find(queue, "a")
        assert (there.id, there.state, there.epoch, there.worker) == (lease.job.id, State.CLAIMED, 1, "anna")

    async def test_a_claimed_job_is_not_given_to_another(self, queue: Queue, other: Queue) -> None:
        await queue.submit(jobs("a"))
        assert keys(await claim(queue)) == ["a"]
        assert await claim(other) == []

    async def test_a_claimed_job_is_not_given_to_its_holder_again(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        await claim_one(queue, worker)
        assert await claim(queue, worker) == []

    async def test_lower_priority_numbers_come_first(self, queue: Queue) -> None:
        await queue.submit([job("late", priority=5), job("soon", priority=0), job("first", priority=-7)])
        assert keys(await claim(queue)) == ["first", "soon", "late"]

    async def test_equal_priorities_come_by_age(self, queue: Queue) -> None:
        await queue.submit(jobs("z", "y"))
        await queue.submit(jobs("x", "w"))
        assert keys(await claim(queue)) == ["z", "y", "x", "w"]

    async def test_priority_then_age_holds_across_kinds_and_partitions(self, queue: Queue) -> None:
        await queue.submit(
            [
                job("a", priority=1, partition="CA"),
                job("b", priority=0, partition="TX"),
                job("c", priority=1, kind="image"),
                job("d", priority=0, run="next"),
                job("e", priority=1, partition="CA"),
            ]
        )
        assert [await self._next(queue) for _ in range(5)] == ["b", "d", "a", "c", "e"]

    async def _next(self, queue: Queue) -> str:
        return (await claim_one(queue)).job.key

    async def test_a_job_that_comes_back_takes_its_old_place(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c"))
        await settle(queue, await claim_one(queue), Released())
        assert keys(await claim(queue)) == ["a", "b", "c"]

    async def test_a_batch_is_never_larger_than_asked_for(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c", "d", "e"))
        assert keys(await claim(queue, limit=2)) == ["a", "b"]
        assert keys(await claim(queue, limit=2)) == ["c", "d"]
        assert keys(await claim(queue, limit=2)) == ["e"]
        assert await claim(queue, limit=2) == []

    async def test_a_claim_on_an_empty_queue_gets_nothing(self, queue: Queue) -> None:
        assert await claim(queue) == []

    async def test_a_worker_of_one_run_gets_jobs_of_that_run_only(self, queue: Queue) -> None:
        await queue.submit([job("a", run="one"), job("b", run="two"), job("c", run="one")])
        assert keys(await claim(queue, run="one")) == ["a", "c"]
        assert await claim(queue, run="none") == []

    async def test_a_worker_gets_jobs_of_its_kinds_only(self, queue: Queue) -> None:
        await queue.submit([job("a", kind="page"), job("b", kind="image"), job("c", kind="feed")])
        assert keys(await claim(queue, kinds=frozenset({"page", "feed"}))) == ["a", "c"]

    async def test_a_worker_gets_jobs_of_its_partitions_only(self, queue: Queue) -> None:
        await queue.submit([job("a", partition="CA"), job("b", partition="TX"), job("c"), job("d", partition="NY")])
        assert keys(await claim(queue, partitions=frozenset({"TX", "NY"}))) == ["b", "d"]
        assert keys(await claim(queue, partitions=frozenset({""}))) == ["c"]

    async def test_all_filters_hold_at_once(self, queue: Queue) -> None:
        await queue.submit(
            [
                job(f"{run}-{kind}-{partition}", run=run, kind=kind, partition=partition)
                for run in ("one", "two")
                for kind in ("page", "image", "feed")
                for partition in ("CA", "TX", "NY")
            ]
        )
        kinds, partitions = frozenset({"page", "feed"}), frozenset({"TX", "NY"})
        leases = await claim(queue, run="two", kinds=kinds, partitions=partitions)
        assert keys(leases) == ["two-page-TX", "two-page-NY", "two-feed-TX", "two-feed-NY"]

    async def test_a_filter_that_names_nothing_gets_nothing(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        assert await claim(queue, kinds=frozenset()) == []
        assert await claim(queue, partitions=frozenset()) == []

    async def test_a_job_of_the_future_is_passed_over_until_it_is_due(self, queue: Queue, harness: Harness) -> None:
        due = await now(queue) + 100
        await queue.submit([job("later", not_before=due), job("now")])
        assert keys(await claim(queue)) == ["now"]
        await harness.advance(90)
        assert await claim(queue) == []
        await harness.advance(20)
        assert keys(await claim(queue)) == ["later"]

    async def test_a_job_of_the_future_keeps_its_instant_while_it_waits(self, queue: Queue) -> None:
        due = await now(queue) + 100
        await queue.submit([job("later", not_before=due)])
        shown = (await find(queue, "later")).not_before
        assert shown is not None
        assert abs(shown - due) < 0.001

    async def test_a_job_that_became_due_comes_by_priority_and_age(self, queue: Queue, harness: Harness) -> None:
        due = await now(queue) + 100
        await queue.submit([job("older", not_before=due), job("urgent", not_before=due, priority=-1), job("younger")])
        await harness.advance(110)
        assert keys(await claim(queue)) == ["urgent", "older", "younger"]

    async def test_an_instant_in_the_past_is_no_delay(self, queue: Queue) -> None:
        await queue.submit([job("a", not_before=1.0)])
        assert keys(await claim(queue)) == ["a"]

    async def test_every_claim_of_a_job_has_a_higher_epoch(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        for epoch in (1, 2, 3):
            lease = await claim_one(queue)
            assert lease.epoch == epoch
            await settle(queue, lease, Released())

    async def test_claims_at_the_same_time_never_share_a_job(self, queue: Queue, other: Queue) -> None:
        await queue.submit(jobs(*(f"{n:03}" for n in range(100))))
        asked = [claim(opening, limit=10) for _ in range(8) for opening in (queue, other)]
        taken = [key for leases in await asyncio.gather(*asked) for key in keys(leases)]
        assert sorted(taken) == [f"{n:03}" for n in range(100)]
