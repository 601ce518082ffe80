"""Waiting for work: it returns at once if there is work, soon after work appears, and at the latest at the timeout."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    MINUTE,
    Scene,
    claim_one,
    failure,
    job,
    jobs,
    let_pass,
    now,
    settle,
)
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Failed, Released, Snoozed
from longshore.queue import Queue

SOON = 10.0
"""Seconds within which a medium with wake-ups must return; far less than the minute of the waits."""


def waiting(queue: Queue, timeout: timedelta = MINUTE, **filters: Any) -> asyncio.Task[bool]:
    """Start a task that waits for work."""
    return asyncio.create_task(queue.wait(Want(worker=WorkerId.new(), **filters), timeout))


async def settled_in(task: asyncio.Task[bool], queue: Queue) -> None:
    """Let the waiter begin: while the queue answers other calls, the waiter has looked and found nothing."""
    for _ in range(20):
        await queue.stats()
        await asyncio.sleep(0)
    assert not task.done()


async def woken(harness: Harness, queue: Queue, task: asyncio.Task[bool]) -> bool:
    """Return whether the waiter was woken by the last call; a medium without wake-ups may wait until the timeout."""
    if queue.traits.wakes:
        return await let_pass(harness, SOON, task)
    await let_pass(harness, MINUTE.total_seconds() * 1.1, task)
    return True


class WaitingTests(Scene):
    async def test_waiting_ends_at_once_if_there_is_work(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        assert await waiting(queue)

    async def test_waiting_for_no_time_at_all_looks_once(self, queue: Queue) -> None:
        nothing = timedelta(0)
        assert not await waiting(queue, nothing)
        await queue.submit(jobs("a"))
        assert await waiting(queue, nothing)

    async def test_waiting_ends_in_vain_after_the_timeout(self, queue: Queue, harness: Harness) -> None:
        task = waiting(queue, timedelta(seconds=1))
        assert not await let_pass(harness, 2, task)

    async def test_work_for_others_is_no_reason_to_wake(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(
            [job("a", run="other"), job("b", kind="image"), job("c", partition="TX"), job("d", run="other")]
        )
        ours = {"run": "run", "kinds": frozenset({"page"}), "partitions": frozenset({"CA"})}
        task = waiting(queue, timedelta(seconds=1), **ours)
        assert not await let_pass(harness, 2, task)

    async def test_jobs_that_others_hold_are_no_reason_to_wake(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await claim_one(queue)
        assert not await let_pass(harness, 2, waiting(queue, timedelta(seconds=1)))

    async def test_jobs_of_the_future_are_no_reason_to_wake(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", not_before=await now(queue) + 1000)])
        assert not await let_pass(harness, 2, waiting(queue, timedelta(seconds=1)))

    async def test_a_submission_wakes_a_waiting_worker(self, queue: Queue, other: Queue, harness: Harness) -> None:
        task = waiting(queue)
        await settled_in(task, queue)
        await other.submit(jobs("a"))
        assert await woken(harness, queue, task)

    async def test_a_submission_wakes_everyone_it_concerns(self, queue: Queue, other: Queue, harness: Harness) -> None:
        tasks = [
            waiting(queue, run="run"),
            waiting(queue, kinds=frozenset({"page"})),
            waiting(other, partitions=frozenset({"CA"})),
        ]
        for task in tasks:
            await settled_in(task, queue)
        await queue.submit([job("a", partition="CA")])
        assert [await woken(harness, queue, task) for task in tasks] == [True] * 3

    async def test_a_follow_on_job_wakes_a_waiting_worker(self, queue: Queue, other: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        task = waiting(other)
        await settled_in(task, queue)
        await settle(queue, lease, Completed(None, tuple(jobs("b"))))
        assert await woken(harness, queue, task)

    async def test_a_released_job_wakes_a_waiting_worker(self, queue: Queue, other: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        lease = await claim_one(queue)
        task = waiting(other)
        await settled_in(task, queue)
        await settle(queue, lease, Released())
        assert await woken(harness, queue, task)

    async def test_a_retried_job_wakes_a_waiting_worker(self, queue: Queue, other: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a"))
        await queue.cancel(ALL)
        task = waiting(other)
        await settled_in(task, queue)
        await queue.retry(ALL)
        assert await woken(harness, queue, task)

    async def test_a_delayed_job_wakes_a_waiting_worker_when_it_is_due(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job("a", not_before=await now(queue) + 30)])
        task = waiting(queue)
        await settled_in(task, queue)
        await harness.advance(25)
        await settled_in(task, queue)
        await harness.advance(10)
        assert await woken(harness, queue, task)

    async def test_a_retry_wakes_a_waiting_worker_when_it_is_due(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("a", "b"))
        for outcome in (Failed(failure(), retry_in=timedelta(seconds=30)), Snoozed(timedelta(hours=1))):
            await settle(queue, await claim_one(queue), outcome)
        task = waiting(queue)
        await settled_in(task, queue)
        await harness.advance(35)
        assert await woken(harness, queue, task)

    async def test_a_cancelled_wait_leaves_the_queue_unchanged(self, queue: Queue, other: Queue) -> None:
        task = waiting(other)
        await settled_in(task, queue)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await queue.submit(jobs("a"))
        assert await waiting(other)
