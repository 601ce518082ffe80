"""Attempts: their limit, what counts as an attempt, and the history of failed ones."""

from __future__ import annotations

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    Scene,
    claim,
    claim_one,
    expire,
    failure,
    find,
    job,
    jobs,
    settle,
)
from longshore.job import DEFAULT_MAX_ATTEMPTS, State
from longshore.lease import WorkerId
from longshore.outcome import Completed, Failed, Released
from longshore.queue import Queue


class AttemptTests(Scene):
    async def test_a_job_has_four_attempts_by_default(self, queue: Queue) -> None:
        assert DEFAULT_MAX_ATTEMPTS == 4
        await queue.submit(jobs("a"))
        states = []
        for _ in range(4):
            await settle(queue, await claim_one(queue), Failed(failure()))
            states.append((await find(queue, "a")).state)
        assert states == [State.PENDING, State.PENDING, State.PENDING, State.FAILED]
        assert await claim(queue) == []

    @pytest.mark.parametrize("limit", [1, 2, 7])
    async def test_a_job_has_as_many_attempts_as_its_submitter_gave_it(self, queue: Queue, limit: int) -> None:
        await queue.submit([job("a", max_attempts=limit)])
        for attempt in range(1, limit + 1):
            assert (await find(queue, "a")).state is State.PENDING
            lease = await claim_one(queue)
            assert lease.job.attempt == attempt
            await settle(queue, lease, Failed(failure()), seconds=0.25)
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.seconds) == (State.FAILED, limit, 0.25)
        assert there.settled_at is not None

    async def test_a_failure_that_cannot_be_helped_fails_at_once(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue, WorkerId.new("anna"))
        await settle(queue, lease, Failed(failure("bad parameters", retryable=False)))
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.worker) == (State.FAILED, 1, "anna")
        assert there.failure == failure("bad parameters", retryable=False)

    async def test_a_handler_may_raise_the_limit_from_now_on(self, queue: Queue) -> None:
        await queue.submit([job("a", max_attempts=1)])
        await settle(queue, await claim_one(queue), Failed(failure(), max_attempts=3))
        there = await find(queue, "a")
        assert (there.state, there.max_attempts) == (State.PENDING, 3)
        await settle(queue, await claim_one(queue), Failed(failure()))
        assert (await find(queue, "a")).state is State.PENDING
        await settle(queue, await claim_one(queue), Failed(failure()))
        assert (await find(queue, "a")).state is State.FAILED

    async def test_a_handler_may_lower_the_limit(self, queue: Queue) -> None:
        await queue.submit([job("a", max_attempts=4)])
        await settle(queue, await claim_one(queue), Failed(failure(), max_attempts=1))
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.max_attempts) == (State.FAILED, 1, 1)

    async def test_a_limit_raised_by_a_handler_holds_for_expiries_too(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=1)])
        await settle(queue, await claim_one(queue), Failed(failure(), max_attempts=2))
        await claim_one(queue)
        await expire(harness, queue)
        assert (await find(queue, "a")).state is State.FAILED

    async def test_failures_and_expiries_count_together(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", max_attempts=3)])
        await settle(queue, await claim_one(queue), Failed(failure()))
        await claim_one(queue)
        await expire(harness, queue)
        await settle(queue, await claim_one(queue), Released())
        assert (await find(queue, "a")).attempts == 2
        await settle(queue, await claim_one(queue), Failed(failure("the third")))
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch) == (State.FAILED, 3, 4)

    async def test_history_keeps_every_failed_attempt_oldest_first(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await settle(queue, await claim_one(queue, WorkerId.new("anna")), Failed(failure("first")), seconds=1.25)
        await settle(queue, await claim_one(queue, WorkerId.new("bert")), Released())
        await claim_one(queue, WorkerId.new("carl"))
        await expire(harness, queue)
        last = failure("third", retryable=False)
        await settle(queue, await claim_one(queue, WorkerId.new("dora")), Failed(last))
        history = await queue.history((await find(queue, "a")).id)
        assert [(entry.epoch, entry.worker) for entry in history] == [(1, "anna"), (3, "carl"), (4, "dora")]
        assert (history[0].failure, history[2].failure) == (failure("first"), last)
        assert [entry.seconds for entry in history] == [1.25, None, None]
        assert history[0].ended_at < history[1].ended_at <= history[2].ended_at

    async def test_a_job_that_never_failed_has_no_history(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        assert await queue.history(lease.job.id) == []
        await settle(queue, lease, Completed())
        assert await queue.history(lease.job.id) == []

    async def test_jobs_do_not_share_their_history(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        first, second = await claim(queue)
        await settle(queue, first, Failed(failure("of a")))
        await settle(queue, second, Failed(failure("of b")))
        for lease, message in ((first, "of a"), (second, "of b")):
            assert [entry.failure.message for entry in await queue.history(lease.job.id)] == [message]

    async def test_a_job_that_is_not_there_has_no_history(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        await settle(queue, lease, Failed(failure(retryable=False)))
        await queue.prune(ALL)
        assert await queue.history(lease.job.id) == []
