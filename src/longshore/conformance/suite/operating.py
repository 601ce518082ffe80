"""Operations on a selection: retry, cancel, release and prune; and which jobs it selects."""

from __future__ import annotations

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    LEASE,
    Scene,
    claim,
    claim_one,
    failure,
    find,
    job,
    jobs,
    keys,
    now,
    seen,
    settle,
)
from longshore.job import State
from longshore.lease import WorkerId
from longshore.outcome import Completed, Failed
from longshore.queue import Queue, Selection, Submitted


async def one_of_each(queue: Queue) -> None:
    """Submit a job for each state, with the state's name as its key, and bring it to this state."""
    for state in (State.COMPLETED, State.FAILED, State.CLAIMED):
        await queue.submit(jobs(state.value))
        lease = await claim_one(queue, WorkerId.new("anna"))
        if state is State.COMPLETED:
            await settle(queue, lease, Completed("well"))
        elif state is State.FAILED:
            await settle(queue, lease, Failed(failure(retryable=False)))
    await queue.submit(jobs("cancelled"))
    await queue.cancel(Selection(ids=frozenset({(await find(queue, "cancelled")).id})))
    await queue.submit(jobs("pending"))


async def states(queue: Queue) -> dict[str, str]:
    """Return the state of every job, by key."""
    return {j.key: j.state.value for j in await queue.jobs(ALL)}


class OperatingTests(Scene):
    async def test_retry_takes_failed_and_cancelled_jobs_only(self, queue: Queue) -> None:
        await one_of_each(queue)
        assert await queue.retry(ALL) == 2
        assert await states(queue) == {
            "completed": "completed",
            "failed": "pending",
            "claimed": "claimed",
            "cancelled": "pending",
            "pending": "pending",
        }
        assert await queue.retry(ALL) == 0

    async def test_a_retried_job_has_all_its_attempts_again(self, queue: Queue) -> None:
        await queue.submit([job("a", max_attempts=2)])
        for _ in range(2):
            await settle(queue, await claim_one(queue), Failed(failure()))
        assert await queue.retry(ALL) == 1
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch, there.max_attempts) == (State.PENDING, 0, 2, 2)
        assert (there.worker, there.settled_at, there.not_before) == (None, None, None)
        for state in (State.PENDING, State.FAILED):
            await settle(queue, await claim_one(queue), Failed(failure()))
            assert (await find(queue, "a")).state is state
        assert [entry.epoch for entry in await queue.history(there.id)] == [1, 2, 3, 4]

    async def test_a_retried_job_can_be_claimed_now_even_if_it_was_delayed(self, queue: Queue) -> None:
        await queue.submit([job("a", not_before=await now(queue) + 1000)])
        await queue.cancel(ALL)
        assert await queue.retry(ALL) == 1
        assert keys(await claim(queue)) == ["a"]

    async def test_a_retried_job_keeps_its_age(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        await queue.cancel(Selection(ids=frozenset({(await find(queue, "a")).id})))
        await queue.submit(jobs("c"))
        await queue.retry(ALL)
        assert keys(await claim(queue)) == ["a", "b", "c"]

    async def test_cancel_takes_pending_and_claimed_jobs_only(self, queue: Queue) -> None:
        await one_of_each(queue)
        assert await queue.cancel(ALL) == 2
        assert await states(queue) == {
            "completed": "completed",
            "failed": "failed",
            "claimed": "cancelled",
            "cancelled": "cancelled",
            "pending": "cancelled",
        }
        assert await queue.cancel(ALL) == 0

    async def test_a_cancelled_job_is_finished_and_not_claimed(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a"), job("b", not_before=await now(queue) + 50)])
        assert await queue.cancel(ALL) == 2
        await harness.advance(100)
        assert await claim(queue) == []
        assert all(j.settled_at is not None for j in await queue.jobs(ALL))

    async def test_cancelling_a_claimed_job_costs_no_attempt(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        worker = WorkerId.new()
        await claim_one(queue, worker)
        await queue.cancel(ALL)
        assert await queue.renew(worker, LEASE) == []
        await harness.advance(LEASE.total_seconds() * 2)
        await queue.reap()
        there = await find(queue, "a")
        assert (there.state, there.attempts) == (State.CANCELLED, 0)
        assert await queue.history(there.id) == []

    async def test_release_takes_claimed_jobs_only(self, queue: Queue) -> None:
        await one_of_each(queue)
        assert await queue.release(ALL) == 1
        assert await states(queue) == {
            "completed": "completed",
            "failed": "failed",
            "claimed": "pending",
            "cancelled": "cancelled",
            "pending": "pending",
        }
        assert await queue.release(ALL) == 0

    async def test_releasing_a_job_costs_no_attempt_and_keeps_its_history(self, queue: Queue, other: Queue) -> None:
        await queue.submit([job("a", max_attempts=2), job("b")])
        await settle(queue, await claim_one(queue), Failed(failure("once")))
        worker = WorkerId.new()
        assert keys(await claim(queue, worker)) == ["a", "b"]
        assert await other.release(Selection(ids=frozenset({(await find(queue, "a")).id}))) == 1
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch, there.worker) == (State.PENDING, 1, 2, None)
        assert [entry.failure.message for entry in await queue.history(there.id)] == ["once"]
        assert [held.job_id for held in await queue.renew(worker, LEASE)] == [(await find(queue, "b")).id]
        lease = await claim_one(queue)
        assert (lease.job.key, lease.epoch) == ("a", 3)
        assert await settle(queue, lease, Completed("again"))

    async def test_prune_takes_finished_jobs_only(self, queue: Queue) -> None:
        await one_of_each(queue)
        assert await queue.prune(ALL) == 3
        assert await states(queue) == {"claimed": "claimed", "pending": "pending"}
        assert await queue.prune(ALL) == 0

    async def test_operations_count_jobs_and_not_their_history(self, queue: Queue) -> None:
        await queue.submit([job("a", max_attempts=3)])
        for _ in range(3):
            await settle(queue, await claim_one(queue), Failed(failure()))
        assert await queue.retry(ALL) == 1
        assert await queue.cancel(ALL) == 1
        assert await queue.prune(ALL) == 1

    async def test_a_pruned_key_may_be_submitted_again(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Failed(failure(retryable=False)))
        await queue.prune(ALL)
        assert await queue.submit([job("a", payload={"n": "new"})]) == Submitted(new=1, duplicates=0)
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.failure) == (State.PENDING, 0, None)
        assert (there.result, there.payload) == (None, {"n": "new"})
        assert await queue.history(there.id) == []
        assert await settle(queue, await claim_one(queue), Completed("again"))

    async def test_operations_apply_to_the_selected_jobs_only(self, queue: Queue) -> None:
        await queue.submit([job("a", run="one"), job("a", run="two")])
        one, two = Selection(run="one"), Selection(run="two")
        assert await queue.cancel(one) == 1
        assert await queue.retry(two) == 0
        assert await queue.prune(two) == 0
        assert [j.state.value for j in await queue.jobs(ALL)] == ["cancelled", "pending"]
        assert await queue.retry(one) == 1
        assert await queue.cancel(two) == 1
        assert await queue.prune(two) == 1
        assert [j.run for j in await queue.jobs(ALL)] == ["one"]

    @pytest.mark.parametrize("operation", ["retry", "cancel", "release", "prune"])
    async def test_operations_on_nothing_do_nothing(self, queue: Queue, operation: str) -> None:
        assert await getattr(queue, operation)(ALL) == 0
        await one_of_each(queue)
        before = await seen(queue)
        for nothing in (Selection(run="no such run"), Selection(ids=frozenset()), Selection(ids=frozenset({"0"}))):
            assert await getattr(queue, operation)(nothing) == 0
        assert await seen(queue) == before

    async def test_thousands_are_operated_on_at_once(self, queue: Queue) -> None:
        await queue.submit([job(f"{n}", partition=f"{n % 7}") for n in range(2000)])
        await claim(queue, limit=500)
        assert await queue.cancel(ALL) == 2000
        assert await queue.retry(ALL) == 2000
        assert len(await claim(queue, limit=3000)) == 2000
        assert await queue.release(ALL) == 2000
        assert len(await claim(queue, limit=3000)) == 2000
        assert await queue.cancel(Selection(partitions=frozenset({"0", "1"}))) == 572
        assert await queue.prune(ALL) == 572
