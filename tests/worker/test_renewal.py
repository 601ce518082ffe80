"""Renewal: what the queue's answer means, and what the worker does about it (F2)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from longshore.errors import QueueError
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Held, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.worker import MaxEmptyPolls
from longshore.worker.leases.held_leases import HeldLeases


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


class SlowToRenew(MemoryQueue):
    """Answers no renewal until it is told to."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.answers = asyncio.Event()

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        await self.answers.wait()
        return list(await super().renew(worker, lease))


async def turns_of_the_loop() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_what_lay_ready_in_a_worker_that_slept_past_its_lease_is_not_begun(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = SlowToRenew(clock)
    await queue.submit([new_job("turns", {"number": number}) for number in range(40)])
    begun: list[int] = []
    half, go = asyncio.Event(), asyncio.Event()

    @handler("turns")
    async def turns(job: Any) -> None:
        begun.append(job.payload["number"])
        if len(begun) == 20:
            half.set()
            await go.wait()

    lease = timedelta(seconds=30)
    task = asyncio.create_task(run_worker(queue, turns, clock=clock, concurrency=1, batch_size=40, lease=lease))
    await half.wait()
    clock.advance(31)
    await queue.reap()
    theirs = await queue.claim(Want(worker=WorkerId.new("other"), limit=40, lease=timedelta(hours=9)))
    go.set()
    await turns_of_the_loop()
    assert len(begun) == 20
    await queue.settle([Settlement(each, Completed()) for each in theirs])
    queue.answers.set()
    report = await advance(task, clock, step=5)
    assert len(begun) == 20
    assert report.stale == len(theirs) > 20


async def test_ready_jobs_begin_after_a_sleep_once_the_queue_has_renewed_them(clock: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("turns", {})])
    lease = timedelta(seconds=30)
    leases = HeldLeases(clock, lease)
    leases.take_in(await queue.claim(Want(worker=WorkerId.new("me"), lease=lease)), clock.monotonic())
    asked_before = clock.monotonic()
    clock.advance(31)
    waiting = asyncio.create_task(leases.next())
    await turns_of_the_loop()
    leases.renewed(asked_before)
    await turns_of_the_loop()
    assert not waiting.done()
    leases.renewed(clock.monotonic())
    assert await waiting is not None


async def test_ready_jobs_wait_for_the_queue_after_the_machine_was_suspended(clock: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("turns", {})])
    lease = timedelta(seconds=30)
    leases = HeldLeases(clock, lease)
    leases.take_in(await queue.claim(Want(worker=WorkerId.new("me"), lease=lease)), leases.now())
    clock.suspend(8 * 3600)
    assert clock.monotonic() == 0
    assert leases.unsure
    waiting = asyncio.create_task(leases.next())
    await turns_of_the_loop()
    assert not waiting.done()
    leases.renewed(leases.now())
    assert await waiting is not None


class Gone(MemoryQueue):
    """Is there no more from the moment that it is told so."""

    there = True

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        if not self.there:
            raise QueueError("The queue is gone.")
        return list(await super().renew(worker, lease))


async def test_attempts_do_not_outlast_their_leases_on_a_queue_that_is_lost_for_good(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = Gone(clock)
    await queue.submit([new_job("waits", {})])
    begun, ended = asyncio.Event(), asyncio.Event()

    @handler("waits", timeout=36_000)
    async def waits(job: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(run_worker(queue, waits, clock=clock, lease=timedelta(seconds=30)))
    await begun.wait()
    queue.there = False
    clock.advance(11)
    await turns_of_the_loop()
    assert not ended.is_set(), "the lease is still ours: the queue may be put back"
    report = await advance(task, clock, step=5, limit=300)
    assert ended.is_set()
    assert (report.exit_code, report.reason) == (1, "The queue is gone.")
