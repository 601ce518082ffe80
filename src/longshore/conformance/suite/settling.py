"""Settling: the effect of each outcome on its job, and its follow-on jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    KIND,
    MINUTE,
    Scene,
    claim,
    claim_one,
    expire,
    failure,
    find,
    job,
    jobs,
    keys,
    listed,
    now,
    seen,
    settle,
)
from longshore.conformance.suite.submitting import CANNOT_BE_STORED
from longshore.errors import Failure
from longshore.job import JobName, State
from longshore.lease import Lease, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, Submitted


class SettlingTests(Scene):
    async def test_a_completed_job_shows_its_result_and_its_worker(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        started = await now(queue)
        lease = await claim_one(queue, WorkerId.new("anna"))
        assert await settle(queue, lease, Completed({"length": 7}), seconds=1.5)
        there = await find(queue, "a")
        assert (there.state, there.result, there.attempts) == (State.COMPLETED, {"length": 7}, 1)
        assert (there.worker, there.seconds, there.failure) == ("anna", 1.5, None)
        assert there.settled_at is not None
        assert there.settled_at >= started - 0.001

    async def test_the_version_of_the_handler_file_is_kept(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        first, second = await claim_one(queue), await claim_one(queue)
        wrong = Failed(Failure("processing", "no answer", retryable=False))
        settlements = [Settlement(first, Completed()), Settlement(second, wrong)]
        assert await queue.settle([each.made_by("0123456789ab") for each in settlements]) == [True, True]
        done, failed = await find(queue, "a"), await find(queue, "b")
        assert (done.handler_version, failed.handler_version) == ("0123456789ab", "")
        assert failed.failure is not None
        assert failed.failure.handler_version == "0123456789ab"
        (entry,) = await queue.history(failed.id)
        assert entry.failure.handler_version == "0123456789ab"

    async def test_a_completed_job_is_never_claimed_again(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Completed())
        await harness.advance(10_000)
        await queue.reap()
        assert await claim(queue) == []

    async def test_a_failed_attempt_goes_back_to_pending_with_its_failure(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        assert await settle(queue, lease, Failed(failure("no answer")), seconds=0.5)
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.failure) == (State.PENDING, 1, failure("no answer"))
        assert there.settled_at is None
        again = await claim_one(queue)
        assert (again.job.attempt, again.job.failure) == (2, failure("no answer"))

    async def test_the_failure_is_cleared_when_the_job_completes(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Failed(failure()))
        lease = await claim_one(queue)
        await settle(queue, lease, Completed("well"))
        there = await find(queue, "a")
        assert (there.failure, there.attempts, there.result) == (None, 2, "well")
        assert len(await queue.history(there.id)) == 1

    async def test_the_failure_survives_a_release(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Failed(failure()))
        await settle(queue, await claim_one(queue), Released())
        assert (await find(queue, "a")).failure == failure()

    async def test_a_retry_waits_as_long_as_the_outcome_says(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Failed(failure(), retry_in=timedelta(seconds=30)))
        await harness.advance(25)
        assert await claim(queue) == []
        await harness.advance(10)
        assert keys(await claim(queue)) == ["a"]

    async def test_a_snoozed_job_waits_and_costs_no_attempt(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        assert await settle(queue, await claim_one(queue), Snoozed(timedelta(seconds=30)))
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.failure) == (State.PENDING, 0, None)
        assert there.not_before is not None
        await harness.advance(25)
        assert await claim(queue) == []
        await harness.advance(10)
        assert (await claim_one(queue)).job.attempt == 1

    async def test_a_released_job_is_there_at_once_and_costs_no_attempt(self, queue: Queue) -> None:
        await queue.submit([job("a", max_attempts=1)])
        for _ in range(5):
            assert await settle(queue, await claim_one(queue), Released())
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch) == (State.PENDING, 0, 5)
        assert (there.worker, there.not_before) == (None, None)
        assert await queue.history(there.id) == []

    async def test_snoozing_and_releasing_never_use_up_the_attempts(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=1)])
        for outcome in (Released(), Snoozed(MINUTE), Released(), Snoozed(MINUTE)):
            assert await settle(queue, await claim_one(queue), outcome)
            await harness.advance(61)
        assert await settle(queue, await claim_one(queue), Completed("in the end"))
        assert (await find(queue, "a")).attempts == 1

    async def test_follow_on_jobs_appear_with_the_settlement_and_not_before(self, queue: Queue, other: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        outcome = Completed("found two", tuple(jobs("b", "c", kind="detail", priority=2, partition="CA")))
        assert await listed(other) == ["a"]
        assert await settle(queue, lease, outcome)
        assert await listed(other) == ["a", "b", "c"]
        follow_on = await find(other, "b", kind="detail")
        assert (follow_on.priority, follow_on.partition, follow_on.payload) == (2, "CA", {"n": "b"})
        assert (follow_on.state, follow_on.epoch, follow_on.attempts) == (State.PENDING, 0, 0)
        assert keys(await claim(other)) == ["b", "c"]

    async def test_follow_on_jobs_join_the_run_of_the_job_they_came_from(self, queue: Queue) -> None:
        await queue.submit([job("a", run="mine")])
        await settle(queue, await claim_one(queue), Completed(None, (job("b", run=""), job("c", run="yours"))))
        assert [j.run for j in await queue.jobs(Selection())] == ["mine", "mine", "mine"]

    async def test_follow_on_jobs_that_are_known_already_are_left_out(self, queue: Queue) -> None:
        await queue.submit([job("a", payload={"n": 1}), job("b")])
        first, second = await claim(queue)
        assert await settle(queue, first, Completed(None, (*jobs("a", "b", "c", "c"), job("a", kind="image"))))
        assert await settle(queue, second, Completed(None, tuple(jobs("c", "d"))))
        assert await listed(queue) == ["a", "b", "c", "a", "d"]
        assert (await find(queue, "a")).result is None

    async def test_follow_on_jobs_of_the_future_wait(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        due = await now(queue) + 100
        await settle(queue, await claim_one(queue), Completed(None, (job("b", not_before=due),)))
        assert await claim(queue) == []
        await harness.advance(110)
        assert keys(await claim(queue)) == ["b"]

    async def test_a_job_from_outside_has_no_parent(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        there = await find(queue, "a")
        lease = await claim_one(queue)
        assert (there.parent, there.depth, lease.job.parent, lease.job.depth) == (None, 0, None, 0)

    async def test_follow_on_jobs_know_their_parent_and_how_deep_they_are(self, queue: Queue, other: Queue) -> None:
        await queue.submit([job("a", kind="list")])
        for depth, (parent, child) in enumerate((("a", "b"), ("b", "c"), ("c", "d")), start=1):
            outcome = Completed(None, (job(child, kind=f"level {depth}"), job(f"{child}2", kind="other", priority=9)))
            assert await settle(queue, await claim_one(queue), outcome)
            there = await find(other, child, kind=f"level {depth}")
            assert (there.parent, there.depth) == (
                JobName("list" if depth == 1 else f"level {depth - 1}", parent),
                depth,
            )
            assert (await find(other, f"{child}2", kind="other")).depth == depth
        leases = await claim(queue)
        assert [(lease.job.key, lease.job.parent, lease.job.depth) for lease in leases] == [
            ("d", JobName("level 2", "c"), 3),
            ("b2", JobName("list", "a"), 1),
            ("c2", JobName("level 1", "b"), 2),
            ("d2", JobName("level 2", "c"), 3),
        ]

    async def test_each_follow_on_job_of_a_batch_has_the_parent_it_came_from(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c"))
        leases = await claim(queue)
        found = {"a": ("x", "y"), "b": (), "c": ("y", "z")}
        await queue.settle([Settlement(lease, Completed(None, tuple(jobs(*found[lease.job.key])))) for lease in leases])
        parents = [(j.key, j.parent and j.parent.key, j.depth) for j in await queue.jobs(ALL)][3:]
        assert parents == [("x", "a", 1), ("y", "a", 1), ("z", "c", 1)]

    async def test_a_known_job_keeps_its_parent(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        first, second = await claim(queue)
        await settle(queue, first, Completed(None, tuple(jobs("b", "c"))))
        await settle(queue, second, Completed(None, tuple(jobs("a", "b", "c"))))
        assert await queue.submit(jobs("c")) == Submitted(new=0, duplicates=1)
        assert [(j.key, j.parent, j.depth) for j in await queue.jobs(ALL)] == [
            ("a", None, 0),
            ("b", None, 0),
            ("c", JobName(KIND, "a"), 1),
        ]

    async def test_a_job_keeps_its_parent_through_whatever_happens_to_it(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue), Completed(None, (job("b", max_attempts=9),)))
        expected = (JobName(KIND, "a"), 1)

        async def claimed() -> Lease:
            lease = await claim_one(queue)
            there = await find(queue, "b")
            assert (lease.job.parent, lease.job.depth) == expected
            assert (there.parent, there.depth) == expected
            return lease

        for outcome in (Failed(failure()), Released(), Snoozed(MINUTE), Failed(failure(retryable=False))):
            await settle(queue, await claimed(), outcome)
            await harness.advance(61)
        assert await queue.retry(ALL) == 1
        await claimed()
        await expire(harness, queue)
        await claimed()
        await queue.cancel(ALL)
        await queue.retry(ALL)
        await queue.prune(ALL)
        await settle(queue, await claimed(), Completed())
        there = await find(queue, "b")
        assert (there.parent, there.depth) == expected

    async def test_a_batch_of_different_outcomes_is_settled_each_in_its_way(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c", "d", "e"))
        leases = await claim(queue)
        outcomes: list[Outcome] = [
            Completed(1, (job("f"),)),
            Failed(failure()),
            Failed(failure(retryable=False)),
            Snoozed(MINUTE),
            Released(),
        ]
        answers = await queue.settle([Settlement(lease, o) for lease, o in zip(leases, outcomes, strict=True)])
        assert answers == [True] * 5
        everything = await queue.jobs(Selection())
        assert [(j.key, j.state.value, j.attempts) for j in everything] == [
            ("a", "completed", 1),
            ("b", "pending", 1),
            ("c", "failed", 1),
            ("d", "pending", 0),
            ("e", "pending", 0),
            ("f", "pending", 0),
        ]

    async def test_an_empty_batch_settles_nothing(self, queue: Queue) -> None:
        assert await queue.settle([]) == []

    async def test_a_batch_that_cannot_be_stored_settles_nothing_of_itself(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c"))
        first, second, third = await claim(queue)
        before = await seen(queue)
        unfit = Completed("fine", (job("d"), job("e", payload={"n": object()})))
        for outcome in (unfit, Completed(object())):
            batch = [Settlement(first, Completed("fine")), Settlement(second, outcome), Settlement(third, Released())]
            with pytest.raises(CANNOT_BE_STORED):
                await queue.settle(batch)
            assert await seen(queue) == before
        assert await settle(queue, first, Completed("fine"))

    async def test_settling_works_through_another_opening(self, queue: Queue, other: Queue) -> None:
        await queue.submit(jobs("a"))
        assert await settle(other, await claim_one(queue), Completed("done"))
        assert (await find(queue, "a")).result == "done"
