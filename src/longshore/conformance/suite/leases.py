"""Leases: how they are renewed, how they are lost, and which jobs become pending again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    LEASE,
    Scene,
    claim,
    claim_one,
    expire,
    find,
    held,
    job,
    jobs,
    keys,
    seen,
    settle,
)
from longshore.job import State
from longshore.lease import WorkerId
from longshore.outcome import Completed, Released
from longshore.queue import Queue, Reaped, Selection

PART = LEASE.total_seconds() * 0.6
"""Seconds that are less than a lease; twice as many are more than one."""


class LeaseTests(Scene):
    async def test_renewing_returns_the_held_leases(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c"))
        worker = WorkerId.new()
        first, second = await claim(queue, worker, limit=2)
        assert set(await queue.renew(worker, LEASE)) == held(first, second)
        await settle(queue, first, Completed())
        assert set(await queue.renew(worker, LEASE)) == held(second)
        await settle(queue, second, Released())
        assert await queue.renew(worker, LEASE) == []

    async def test_a_worker_that_holds_nothing_may_renew(self, queue: Queue) -> None:
        assert await queue.renew(WorkerId.new(), LEASE) == []

    async def test_a_renewed_lease_does_not_expire(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        worker = WorkerId.new()
        leases = await claim(queue, worker)
        for _ in range(3):
            assert await queue.reap() == Reaped()
            await harness.advance(PART)
            assert set(await queue.renew(worker, LEASE)) == held(*leases)
        await harness.advance(PART)
        assert await queue.reap() == Reaped()
        assert await queue.settle([]) == []
        assert [await settle(queue, lease, Completed()) for lease in leases] == [True, True]

    async def test_renewing_extends_by_the_length_given(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        lease = await claim_one(queue, worker)
        await queue.renew(worker, LEASE * 10)
        assert await queue.reap() == Reaped()
        await harness.advance(LEASE.total_seconds() * 8)
        assert await queue.reap() == Reaped()
        assert await queue.renew(worker, LEASE) == [lease.held]

    async def test_claiming_renews_the_leases_already_held(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        worker = WorkerId.new()
        first = await claim_one(queue, worker)
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        second = await claim_one(queue, worker)
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        assert await queue.reap() == Reaped()
        assert set(await queue.renew(worker, LEASE)) == held(first, second)

    async def test_claiming_in_vain_renews_too(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        lease = await claim_one(queue, worker)
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        assert await claim(queue, worker) == []
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        assert await queue.reap() == Reaped()
        assert await queue.renew(worker, LEASE) == [lease.held]

    async def test_jobs_of_a_silent_worker_come_back_and_count_an_attempt(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        await claim(queue, WorkerId.new("anna"))
        assert await expire(harness, queue) == Reaped(returned=2, failed=0)
        for key in ("a", "b"):
            there = await find(queue, key)
            assert (there.state, there.attempts, there.epoch) == (State.PENDING, 1, 1)
        leases = await claim(queue)
        assert [(lease.job.key, lease.epoch, lease.job.attempt) for lease in leases] == [("a", 2, 2), ("b", 2, 2)]

    async def test_an_expiry_is_kept_as_a_crash_that_names_the_worker(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue, WorkerId.new("anna-7"))
        await expire(harness, queue)
        (entry,) = await queue.history(lease.job.id)
        assert (entry.epoch, entry.worker, entry.failure.error_type) == (1, "anna-7", "crash")
        assert entry.failure.retryable
        assert "anna-7" in entry.failure.message
        assert (await find(queue, "a")).failure == entry.failure

    async def test_an_expiry_on_the_last_attempt_fails_the_job(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=1), job("b", max_attempts=2)])
        await claim(queue)
        assert await expire(harness, queue) == Reaped(returned=1, failed=1)
        last, next_to_last = await find(queue, "a"), await find(queue, "b")
        assert (last.state, last.attempts, next_to_last.state) == (State.FAILED, 1, State.PENDING)
        assert last.settled_at is not None
        assert last.failure is not None
        assert last.failure.error_type == "crash"

    async def test_every_silence_counts_until_no_attempt_is_left(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=3)])
        for attempt in (1, 2, 3):
            assert (await claim_one(queue)).job.attempt == attempt
            await expire(harness, queue)
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch) == (State.FAILED, 3, 3)
        assert [entry.epoch for entry in await queue.history(there.id)] == [1, 2, 3]
        assert await claim(queue) == []

    async def test_only_the_silent_worker_loses_its_leases(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        silent, alive = WorkerId.new("silent"), WorkerId.new("alive")
        await claim_one(queue, silent)
        kept = await claim_one(queue, alive)
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        await queue.renew(alive, LEASE)
        await harness.advance(PART)
        assert await queue.reap() == Reaped(returned=1)
        assert ((await find(queue, "a")).state, (await find(queue, "b")).state) == (State.PENDING, State.CLAIMED)
        assert await queue.renew(alive, LEASE) == [kept.held]

    async def test_two_workers_with_one_label_share_no_lease(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        dead, alive = WorkerId.new("twin"), WorkerId.new("twin")
        lost, kept = await claim_one(queue, dead), await claim_one(queue, alive)
        assert await queue.renew(alive, LEASE) == [kept.held]
        assert await queue.renew(dead, LEASE) == [lost.held]
        assert await queue.reap() == Reaped()
        await harness.advance(PART)
        await queue.renew(alive, LEASE)
        await harness.advance(PART)
        assert await queue.reap() == Reaped(returned=1)
        assert await queue.renew(dead, LEASE) == []
        assert await queue.renew(alive, LEASE) == [kept.held]

    async def test_a_worker_learns_that_a_lease_was_reaped_when_it_renews(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        await claim_one(queue, worker)
        await expire(harness, queue)
        assert await queue.renew(worker, LEASE) == []
        assert (await find(queue, "a")).state is State.PENDING

    async def test_a_worker_learns_that_a_job_was_cancelled_when_it_renews(self, queue: Queue) -> None:
        await queue.submit([job("a"), job("b", kind="image")])
        worker = WorkerId.new()
        _, kept = await claim(queue, worker)
        assert await queue.cancel(Selection(kinds=frozenset({"page"}))) == 1
        assert await queue.renew(worker, LEASE) == [kept.held]

    async def test_a_worker_that_was_reaped_can_claim_again(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        await claim_one(queue, worker)
        await expire(harness, queue)
        again = await claim_one(queue, worker)
        assert again.epoch == 2
        assert await queue.renew(worker, LEASE) == [again.held]
        assert await expire(harness, queue) == Reaped(returned=1)

    async def test_a_late_worker_that_was_not_reaped_still_holds_its_job(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        await harness.advance(LEASE.total_seconds() * 5)
        assert await settle(queue, lease, Completed("late"))

    async def test_a_settled_job_is_not_reaped(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b", "c"))
        done, given_back, _ = await claim(queue)
        await settle(queue, done, Completed())
        await settle(queue, given_back, Released())
        assert await expire(harness, queue) == Reaped(returned=1)
        assert [(await find(queue, key)).attempts for key in ("a", "b", "c")] == [1, 0, 1]

    async def test_reaping_twice_finds_nothing_the_second_time(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        await claim(queue)
        await expire(harness, queue)
        before = await seen(queue)
        assert await queue.reap() == Reaped()
        assert await seen(queue) == before

    async def test_reaping_an_empty_queue_does_nothing(self, queue: Queue) -> None:
        assert await queue.reap() == Reaped()

    async def test_anyone_may_reap(self, queue: Queue, other: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await claim_one(queue)
        assert await expire(harness, other) == Reaped(returned=1)
        assert keys(await claim(queue)) == ["a"]

    async def test_leases_outlive_the_opening_they_were_claimed_through(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        brief = await harness.open()
        lease = await claim_one(brief, worker)
        await brief.close()
        await brief.close()
        assert await queue.renew(worker, LEASE) == [lease.held]
        assert await settle(queue, lease, Completed())

    async def test_workers_with_leases_of_different_length_expire_each_in_its_time(
        self, queue: Queue, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", "b"))
        await claim_one(queue, lease=timedelta(seconds=10))
        await claim_one(queue, lease=timedelta(seconds=100))
        assert await queue.reap() == Reaped()
        await harness.advance(20)
        assert await queue.reap() == Reaped(returned=1)
        await harness.advance(100)
        assert await queue.reap() == Reaped(returned=1)
        assert [j.attempts for j in await queue.jobs(ALL)] == [1, 1]

    @pytest.mark.parametrize("step", [3600.0, -7200.0])
    async def test_a_clock_that_is_set_neither_takes_a_lease_nor_prolongs_one(
        self, queue: Queue, other: Queue, harness: Harness, step: float
    ) -> None:
        await queue.submit(jobs("a", "b"))
        alive, dead = WorkerId.new("alive"), WorkerId.new("dead")
        kept, lost = await claim_one(queue, alive), await claim_one(queue, dead)
        assert [await opening.reap() for opening in (queue, other)] == [Reaped(), Reaped()]
        await harness.advance(1)
        if not await harness.set_clock(step):
            pytest.skip("the clock of this medium is that of its server")
        assert [await opening.reap() for opening in (queue, other)] == [Reaped(), Reaped()]
        await harness.advance(PART)
        assert await queue.renew(alive, LEASE) == [kept.held]
        await harness.advance(PART)
        assert await other.reap() == Reaped(returned=1)
        assert not await settle(queue, lost, Completed())
        assert await settle(queue, kept, Completed())
