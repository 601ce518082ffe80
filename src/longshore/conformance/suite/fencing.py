"""Fencing: a worker that does not hold a job, or holds it no longer, cannot change anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    LEASE,
    Scene,
    claim,
    claim_one,
    expire,
    failure,
    find,
    held,
    job,
    jobs,
    keys,
    seen,
    settle,
)
from longshore.job import State
from longshore.lease import Lease, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue

OUTCOMES = [
    pytest.param(Completed({"by": "the late one"}, tuple(jobs("x", "y"))), id="completed"),
    pytest.param(Failed(failure("late")), id="failed"),
    pytest.param(Failed(failure("late", retryable=False), max_attempts=1), id="failed for good"),
    pytest.param(Snoozed(timedelta(hours=1)), id="snoozed"),
    pytest.param(Released(), id="released"),
]


async def _reaped(harness: Harness, queue: Queue) -> Lease:
    lease = await claim_one(queue)
    await expire(harness, queue)
    return lease


async def _claimed_by_another(harness: Harness, queue: Queue) -> Lease:
    lease = await _reaped(harness, queue)
    await claim_one(queue, WorkerId.new("another"))
    return lease


async def _claimed_by_itself_again(harness: Harness, queue: Queue) -> Lease:
    del harness
    worker = WorkerId.new("same")
    lease = await claim_one(queue, worker)
    await settle(queue, lease, Released())
    await claim_one(queue, worker)
    return lease


async def _completed_by_another(harness: Harness, queue: Queue) -> Lease:
    lease = await _reaped(harness, queue)
    await settle(queue, await claim_one(queue), Completed("by the right one", tuple(jobs("z"))))
    return lease


async def _settled_before(harness: Harness, queue: Queue) -> Lease:
    del harness
    lease = await claim_one(queue)
    await settle(queue, lease, Completed("the first time", tuple(jobs("z"))))
    return lease


async def _failed_for_good(harness: Harness, queue: Queue) -> Lease:
    del harness
    lease = await claim_one(queue)
    await settle(queue, lease, Failed(failure(retryable=False)))
    return lease


async def _cancelled(harness: Harness, queue: Queue) -> Lease:
    del harness
    lease = await claim_one(queue)
    await queue.cancel(ALL)
    return lease


async def _given_back_by_a_person(harness: Harness, queue: Queue) -> Lease:
    del harness
    lease = await claim_one(queue)
    await queue.release(ALL)
    return lease


async def _cancelled_and_retried(harness: Harness, queue: Queue) -> Lease:
    lease = await _cancelled(harness, queue)
    await queue.retry(ALL)
    await claim_one(queue, WorkerId.new("another"))
    return lease


async def _failed_and_retried(harness: Harness, queue: Queue) -> Lease:
    lease = await _failed_for_good(harness, queue)
    await queue.retry(ALL)
    await claim_one(queue, WorkerId.new("another"))
    return lease


async def _pruned(harness: Harness, queue: Queue) -> Lease:
    lease = await _cancelled(harness, queue)
    await queue.prune(ALL)
    return lease


async def _pruned_and_submitted_anew(harness: Harness, queue: Queue) -> Lease:
    lease = await _pruned(harness, queue)
    await queue.submit(jobs("a"))
    await claim_one(queue, WorkerId.new("another"))
    return lease


async def _pruned_and_followed_by_another(harness: Harness, queue: Queue) -> Lease:
    lease = await _pruned(harness, queue)
    await queue.submit(jobs("b"))
    await claim_one(queue, WorkerId.new("another"))
    return lease


LOSSES = [
    _reaped,
    _claimed_by_another,
    _claimed_by_itself_again,
    _completed_by_another,
    _settled_before,
    _failed_for_good,
    _cancelled,
    _given_back_by_a_person,
    _cancelled_and_retried,
    _failed_and_retried,
    _pruned,
    _pruned_and_submitted_anew,
    _pruned_and_followed_by_another,
]


class FencingTests(Scene):
    @pytest.mark.parametrize("outcome", OUTCOMES)
    @pytest.mark.parametrize("lose", LOSSES, ids=lambda loss: loss.__name__.strip("_"))
    async def test_a_stale_lease_changes_nothing(
        self, queue: Queue, harness: Harness, lose: Callable[[Harness, Queue], Awaitable[Lease]], outcome: Outcome
    ) -> None:
        await queue.submit(jobs("a"))
        stale = await lose(harness, queue)
        before = await seen(queue)
        assert not await settle(queue, stale, outcome, seconds=9.9)
        assert await seen(queue) == before

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_an_epoch_that_was_never_given_changes_nothing(self, queue: Queue, outcome: Outcome) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        forged = msgspec.structs.replace(lease, job=msgspec.structs.replace(lease.job, epoch=lease.epoch + 1))
        before = await seen(queue)
        assert not await settle(queue, forged, outcome)
        assert await seen(queue) == before
        assert await settle(queue, lease, Completed())

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_a_worker_that_never_claimed_changes_nothing(self, queue: Queue, outcome: Outcome) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue, WorkerId.new("same"))
        forged = msgspec.structs.replace(lease, worker=WorkerId.new("same"))
        before = await seen(queue)
        assert not await settle(queue, forged, outcome)
        assert await seen(queue) == before
        assert await settle(queue, lease, Completed())

    async def test_a_holder_of_another_job_cannot_settle_this_one(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        mine, other = await claim_one(queue, WorkerId.new("one")), await claim_one(queue, WorkerId.new("two"))
        forged = msgspec.structs.replace(other, worker=mine.worker)
        results = [(forged, "no"), (mine, "a"), (other, "b")]
        batch = [Settlement(lease, Completed(result)) for lease, result in results]
        assert await queue.settle(batch) == [False, True, True]
        assert [(j.key, j.result) for j in await queue.jobs(ALL)] == [("a", "a"), ("b", "b")]

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_after_a_restored_backup_only_the_new_holder_may_settle(
        self, harness: Harness, outcome: Outcome
    ) -> None:
        queue = await harness.open()
        await queue.submit(jobs("a"))
        await queue.close()
        restore = await harness.back_up()
        if restore is None:
            pytest.skip("its harness cannot restore a copy")
        queue = await harness.open()
        old = await claim_one(queue, WorkerId.new("old"))
        await queue.close()
        await restore()
        queue = await harness.open()
        new = await claim_one(queue, WorkerId.new("new"))
        assert new.held == old.held, "the numbers of the two claims are the same: only their workers differ"
        before = await seen(queue)
        assert not await settle(queue, old, outcome)
        assert await seen(queue) == before
        assert not await queue.renew(old.worker, LEASE)
        assert await settle(queue, new, Completed("by the new one"))
        assert (await find(queue, "a")).result == "by the new one"
        await queue.close()

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_the_same_settlement_twice_counts_once(self, queue: Queue, outcome: Outcome) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        assert await settle(queue, lease, outcome)
        before = await seen(queue)
        assert not await settle(queue, lease, outcome)
        assert await seen(queue) == before

    async def test_of_two_settlements_of_one_lease_in_a_batch_the_first_counts(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        batch = [Settlement(lease, Completed("first")), Settlement(lease, Completed("second", tuple(jobs("x"))))]
        assert await queue.settle(batch) == [True, False]
        assert [(j.key, j.result) for j in await queue.jobs(ALL)] == [("a", "first")]

    async def test_a_release_and_a_completion_in_one_batch_do_not_both_count(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        assert await queue.settle([Settlement(lease, Released()), Settlement(lease, Completed("no"))]) == [True, False]
        assert (await find(queue, "a")).state is State.PENDING

    async def test_a_batch_says_for_each_in_its_order_whether_it_was_accepted(
        self, queue: Queue, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", "b"))
        stale_a, stale_b = await claim(queue)
        await expire(harness, queue)
        await queue.submit(jobs("c", "d"))
        a, b, c, d = await claim(queue, WorkerId.new("another"))
        batch = [
            Settlement(stale_b, Completed("stale", tuple(jobs("x")))),
            Settlement(d, Completed("good", tuple(jobs("y")))),
            Settlement(stale_a, Failed(failure("stale"))),
            Settlement(a, Failed(failure("good"))),
            Settlement(d, Completed("again", tuple(jobs("z")))),
            Settlement(c, Released()),
        ]
        assert await queue.settle(batch) == [False, True, False, True, False, True]
        everything = await queue.jobs(ALL)
        assert [(j.key, j.state.value, j.result) for j in everything] == [
            ("a", "pending", None),
            ("b", "claimed", None),
            ("c", "pending", None),
            ("d", "completed", "good"),
            ("y", "pending", None),
        ]
        messages = [entry.failure.message for entry in await queue.history(a.job.id)]
        assert messages[1:] == ["good"]
        assert await settle(queue, b, Completed())

    async def test_a_stale_settlement_does_not_take_the_job_from_its_holder(
        self, queue: Queue, harness: Harness
    ) -> None:
        await queue.submit(jobs("a"))
        stale = await _reaped(harness, queue)
        holder = WorkerId.new("holder")
        lease = await claim_one(queue, holder)
        assert not await settle(queue, stale, Completed())
        assert set(await queue.renew(holder, LEASE)) == held(lease)
        assert await settle(queue, lease, Completed("mine"))
        assert (await find(queue, "a")).result == "mine"

    async def test_the_fence_holds_through_another_opening(self, queue: Queue, other: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        stale = await _reaped(harness, queue)
        lease = await claim_one(other)
        assert not await settle(queue, stale, Completed("stale"))
        assert await settle(queue, lease, Completed("fresh"))
        assert not await settle(other, stale, Completed("stale"))
        assert (await find(other, "a")).result == "fresh"

    async def test_the_epoch_is_never_reset(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=1)])
        epochs = []
        for end in (Released(), Failed(failure()), Failed(failure(retryable=False))):
            lease = await claim_one(queue)
            epochs.append(lease.epoch)
            await settle(queue, lease, end)
            await queue.retry(ALL)
        epochs.append((await _reaped(harness, queue)).epoch)
        await queue.retry(ALL)
        epochs.append((await _cancelled(harness, queue)).epoch)
        await queue.retry(ALL)
        epochs.append((await claim_one(queue)).epoch)
        assert epochs == [1, 2, 3, 4, 5, 6]
        assert keys(await queue.jobs(ALL)) == ["a"]
