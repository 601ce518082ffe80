"""What renewal learns from the queue's answer, and what the worker does about it (F2)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.worker import MaxEmptyPolls


async def test_an_attempt_whose_lease_is_lost_is_ended_and_changes_nothing(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("waits", {})])
    begun, ended = asyncio.Event(), asyncio.Event()

    @handler("waits")
    async def waits(job: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    task = asyncio.create_task(run_worker(queue, waits, clock=clock, stop=(MaxEmptyPolls(2),)))
    await begun.wait()
    await queue.cancel(Selection())
    report = await advance(task, clock, step=5)
    assert ended.is_set()
    (job,) = await queue.jobs(Selection())
    assert job.state is State.CANCELLED
    assert (report.stale, report.completed, report.failed, report.released) == (1, 0, 0, 0)


async def test_leases_of_a_long_attempt_are_renewed(run_worker: Any, clock: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("waits", {})])
    begun, go = asyncio.Event(), asyncio.Event()

    @handler("waits")
    async def waits(job: Any) -> str:
        begun.set()
        await go.wait()
        return "done"

    task = asyncio.create_task(run_worker(queue, waits, clock=clock, lease=timedelta(seconds=30)))
    await begun.wait()
    for _ in range(20):
        clock.advance(10.5)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (await queue.reap()).returned == 0
    go.set()
    report = await task
    assert (report.completed, report.stale) == (1, 0)


async def test_a_claim_whose_answer_got_lost_is_given_back(run_worker: Any, advance: Any, clock: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {})])

    @handler("echo")
    async def echo(job: Any) -> str:
        return "done"

    me = WorkerId.new("me")
    await queue.claim(Want(worker=me))  # the worker itself never hears of this lease
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, worker=me, lease=timedelta(seconds=300)))
    report = await advance(task, clock, step=5, limit=1000)
    (job,) = await queue.jobs(Selection())
    assert (job.state, job.epoch, job.attempts) == (State.COMPLETED, 2, 1)
    assert report.completed == 1
    assert 200 <= clock.monotonic() <= 230  # the second renewal that reports it
