"""One worker in this process, on a queue in memory: what becomes of jobs."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import weakref
from datetime import timedelta
from typing import Any

import pytest

from longshore.errors import ForeignQueueError, ProcessingError, QueueUnavailableError, UnknownKindError
from longshore.handlers.handler import handler
from longshore.handlers.kit import AsyncKit
from longshore.handlers.result import Result, Snooze
from longshore.job import Job, State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Settlement
from longshore.queue import Selection
from longshore.scrape.records import SegmentSink
from longshore.worker import MaxWork


@handler("echo")
async def echo(job: Any, kit: Any) -> Any:
    return job.payload


async def states(queue: MemoryQueue) -> list[State]:
    return [job.state for job in await queue.jobs(Selection())]


async def test_every_job_is_done_and_its_result_is_kept(memory: MemoryQueue, run_worker: Any, some_jobs: Any) -> None:
    await memory.submit(some_jobs("echo", 500))
    report = await run_worker(memory, echo, batch_size=20)
    jobs = await memory.jobs(Selection())
    assert [job.result for job in jobs] == [{"number": number} for number in range(500)]
    assert (report.claimed, report.completed, report.failed, report.stale) == (500, 500, 0, 0)
    assert (report.exit_code, report.reason) == (0, "every run is finished")


async def test_follow_on_jobs_are_done_before_the_run_counts_as_finished(memory: MemoryQueue, run_worker: Any) -> None:
    @handler("page")
    async def page(job: Any) -> Result:
        depth = job.payload["depth"]
        return Result(depth, [new_job("page", {"depth": depth + 1})] if depth < 5 else [])

    await memory.submit([new_job("page", {"depth": 1})])
    assert (await run_worker(memory, page)).completed == 5


async def test_a_failure_is_tried_again_and_kept_in_the_history(memory: MemoryQueue, run_worker: Any) -> None:
    @handler("flaky", retries=2, backoff=0)
    async def flaky(job: Any) -> str:
        if job.attempt < 3:
            raise ProcessingError(f"attempt {job.attempt} failed")
        return "at last"

    await memory.submit([new_job("flaky", {})])
    report = await run_worker(memory, flaky)
    (job,) = await memory.jobs(Selection())
    assert (job.state, job.result) == (State.COMPLETED, "at last")
    assert [entry.failure.message for entry in await memory.history(job.id)] == ["attempt 1 failed", "attempt 2 failed"]
    assert (report.completed, report.failed, report.retried) == (1, 0, 2)


async def test_what_a_failed_attempt_held_is_let_go_without_the_collector(memory: MemoryQueue, run_worker: Any) -> None:
    class Page:
        """As large as pages are."""

    held: list[weakref.ref[Page]] = []

    @handler("broken", retries=0)
    async def broken(job: Any) -> None:
        page = Page()
        held.append(weakref.ref(page))
        raise ProcessingError("it cannot be read")

    await memory.submit([new_job("broken", {"number": number}) for number in range(3)])
    gc.disable()
    try:
        await run_worker(memory, broken)
        assert [page() for page in held] == [None] * 3
    finally:
        gc.enable()


async def test_an_async_attempt_is_ended_at_its_timeout(memory: MemoryQueue, run_worker: Any) -> None:
    ended = []

    @handler("slow", timeout=0.05, retries=0)
    async def slow(job: Any) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(job.id)

    await memory.submit([new_job("slow", {}), new_job("echo", {})])
    await run_worker(memory, slow, echo)
    first, second = await memory.jobs(Selection())
    assert first.failure is not None
    assert (first.state, first.failure.error_type) == (State.FAILED, "timeout")
    assert "longer than its 0.05 s" in first.failure.message
    assert ended == [first.id]
    assert second.state is State.COMPLETED


async def test_an_attempt_that_swallows_its_cancellation_counts_as_timed_out(
    memory: MemoryQueue, run_worker: Any
) -> None:
    @handler("stubborn", timeout=0.05, retries=0)
    async def stubborn(job: Any) -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "too late"
        return "never"

    await memory.submit([new_job("stubborn", {}), new_job("echo", {})])
    await run_worker(memory, stubborn, echo, concurrency=1)
    first, second = await memory.jobs(Selection())
    assert first.failure is not None
    assert (first.failure.error_type, second.state) == ("timeout", State.COMPLETED)


async def test_an_executor_times_each_attempt_separately(memory: MemoryQueue, run_worker: Any) -> None:
    """Its timer, set for an attempt that ended long ago, must neither end a later one early nor miss its end."""

    @handler("brief", timeout=1.5, retries=0)
    async def brief(job: Any) -> None:
        await asyncio.sleep(job.payload["seconds"])

    naps = [1, 1, 1, 3600]
    await memory.submit([new_job("brief", {"seconds": nap}, key=str(number)) for number, nap in enumerate(naps)])
    await run_worker(memory, brief, concurrency=1)
    assert await states(memory) == [State.COMPLETED, State.COMPLETED, State.COMPLETED, State.FAILED]


async def test_sys_exit_and_a_cancellation_of_its_own_are_failures_of_the_job_alone(
    memory: MemoryQueue, run_worker: Any
) -> None:
    @handler("exits", retries=0)
    async def exits(job: Any) -> None:
        sys.exit(3)

    @handler("cancels", retries=0)
    async def cancels(job: Any) -> None:
        raise asyncio.CancelledError

    await memory.submit([new_job("exits", {}), new_job("cancels", {}), new_job("echo", {})])
    report = await run_worker(memory, exits, cancels, echo)
    first, second, third = await memory.jobs(Selection())
    assert first.failure is not None
    assert second.failure is not None
    assert "sys.exit(3)" in first.failure.message
    assert "cancelled itself" in second.failure.message
    assert (third.state, report.exit_code) == (State.COMPLETED, 0)


async def test_a_job_that_crashed_on_its_last_allowed_attempt_is_not_run_again(run_worker: Any, clock: Any) -> None:
    """D2: a crash counts, although no handler was there to say so."""
    queue = MemoryQueue(clock)
    await queue.submit([new_job("once", {})])
    doomed = Want(worker=WorkerId.new("doomed"), lease=timedelta(seconds=1))
    await queue.claim(doomed)
    clock.advance(2)
    await queue.reap()

    @handler("once", retries=0)
    async def once(job: Any) -> None:
        raise AssertionError("it must not run")

    report = await run_worker(queue, once, clock=clock)
    (job,) = await queue.jobs(Selection())
    assert job.failure is not None
    assert (job.state, report.failed) == (State.FAILED, 1)
    assert "attempts are used up" in job.failure.message
    assert "doomed went silent" in job.failure.message


async def test_a_snoozed_job_costs_no_attempt(memory: MemoryQueue, run_worker: Any) -> None:
    seen = []

    @handler("later")
    async def later(job: Any) -> Any:
        seen.append(job.attempt)
        return Snooze(0.01) if len(seen) < 3 else "now"

    await memory.submit([new_job("later", {})])
    report = await run_worker(memory, later)
    assert (seen, report.snoozed, report.completed) == ([1, 1, 1], 2, 1)


async def test_a_kind_without_a_handler_cannot_be_asked_for(memory: MemoryQueue, run_worker: Any) -> None:
    with pytest.raises(UnknownKindError, match=r"no handler for pictures .* It has: echo"):
        await run_worker(memory, echo, kinds=frozenset({"pictures"}))


async def test_no_more_attempts_run_at_once_than_asked_for(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any
) -> None:
    under_way = most = 0

    @handler("wait")
    async def wait(job: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1

    await memory.submit(some_jobs("wait", 60))
    await run_worker(memory, wait, concurrency=3)
    assert most == 3


async def test_a_worker_with_slow_jobs_does_not_hoard(memory: MemoryQueue, run_worker: Any, some_jobs: Any) -> None:
    """Before it knows how long jobs take, and when they take long, it holds only what it works on."""
    go = asyncio.Event()
    begun = asyncio.Semaphore(0)

    @handler("slow")
    async def slow(job: Any) -> None:
        begun.release()
        await go.wait()

    await memory.submit(some_jobs("slow", 20))
    task = asyncio.create_task(run_worker(memory, slow, concurrency=2, batch_size=10))
    await begun.acquire()
    await begun.acquire()
    held = (await states(memory)).count(State.CLAIMED)
    go.set()
    await task
    assert held == 2


async def test_what_a_claim_brings_after_it_is_time_to_stop_is_given_back(run_worker: Any, some_jobs: Any) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryQueue):
        async def claim(self, want: Want) -> Any:
            asked.set()
            await go.wait()
            return await super().claim(want)

    queue = Slow()
    await queue.submit(some_jobs("echo", 3))
    task = asyncio.create_task(run_worker(queue, echo))
    await asked.wait()
    signal.raise_signal(signal.SIGTERM)
    for _ in range(20):
        await asyncio.sleep(0)
    go.set()
    report = await task
    assert await states(queue) == [State.PENDING] * 3
    assert (report.completed, report.released, report.exit_code) == (0, 3, 0)
    assert report.reason.startswith("SIGTERM received")


class Faulty(MemoryQueue):
    """Raises what is planned before it does what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, list[Exception]] = {"claim": [], "settle": [], "settled": []}

    async def claim(self, want: Want) -> Any:
        self._fault("claim")
        return await super().claim(want)

    async def settle(self, settlements: Any) -> list[bool]:
        self._fault("settle")
        accepted = await super().settle(settlements)
        self._fault("settled")
        return accepted

    def _fault(self, name: str) -> None:
        if self.faults[name]:
            raise self.faults[name].pop(0)


async def test_a_queue_out_of_reach_is_tried_again_and_nothing_is_lost(run_worker: Any, some_jobs: Any) -> None:
    """A11"""
    queue = Faulty()
    await queue.submit(some_jobs("echo", 10))
    queue.faults["claim"] = [QueueUnavailableError("restarting")]
    queue.faults["settle"] = [QueueUnavailableError("restarting")]
    report = await run_worker(queue, echo)
    assert await states(queue) == [State.COMPLETED] * 10
    assert (report.completed, report.stale, report.exit_code) == (10, 0, 0)


async def test_an_answer_that_got_lost_does_not_make_the_outcome_count_as_refused(
    run_worker: Any, some_jobs: Any
) -> None:
    queue = Faulty()
    await queue.submit(some_jobs("echo", 4))
    queue.faults["settled"] = [QueueUnavailableError("the line broke")]
    report = await run_worker(queue, echo, stop=(MaxWork(4),))
    assert (report.completed, report.stale) == (4, 0)


async def test_a_queue_that_is_lost_for_good_ends_the_worker_with_1_and_its_message(
    run_worker: Any, some_jobs: Any
) -> None:
    queue = Faulty()
    await queue.submit(some_jobs("echo", 10))
    queue.faults["claim"] = [ForeignQueueError("This is no queue. Name another file.")]
    report = await run_worker(queue, echo)
    assert (report.exit_code, report.reason) == (1, "This is no queue. Name another file.")


async def test_outcomes_that_cannot_be_written_are_said_and_their_jobs_stay_claimed(
    run_worker: Any, some_jobs: Any
) -> None:
    queue = Faulty()
    await queue.submit(some_jobs("echo", 1))
    queue.faults["settle"] = [ForeignQueueError("no queue")] * 3
    report = await run_worker(queue, echo)
    assert (report.exit_code, report.completed) == (1, 0)
    assert await states(queue) == [State.CLAIMED]


async def test_an_outcome_that_cannot_be_stored_spoils_no_other(run_worker: Any, some_jobs: Any) -> None:
    class Picky(MemoryQueue):
        async def settle(self, settlements: Any) -> list[bool]:
            for settlement in settlements:
                self._refuse(settlement)
            return await super().settle(settlements)

        @staticmethod
        def _refuse(settlement: Settlement) -> None:
            if settlement.lease.job.payload["number"] == 2 and "Completed" in type(settlement.outcome).__name__:
                raise ValueError("this text cannot be stored")

    queue = Picky()
    await queue.submit(some_jobs("echo", 4))
    report = await run_worker(queue, echo)
    assert await states(queue) == [State.COMPLETED, State.COMPLETED, State.FAILED, State.COMPLETED]
    bad = (await queue.jobs(Selection()))[2]
    assert bad.failure is not None
    assert "this text cannot be stored" in bad.failure.message
    assert report.exit_code == 0


async def test_a_passing_error_of_the_process_while_outcomes_are_written_is_no_attempt(
    run_worker: Any, some_jobs: Any
) -> None:
    queue = Faulty()
    await queue.submit(some_jobs("echo", 3))
    queue.faults["settle"] = [RuntimeError("can't start new thread")] * 2
    report = await run_worker(queue, echo)
    assert (report.exit_code, report.completed) == (0, 3)
    assert [job.attempts for job in await queue.jobs(Selection())] == [1, 1, 1]


async def test_jobs_are_given_back_without_an_attempt_when_the_process_cannot_write_records(
    run_worker: Any, some_jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flush(sink: SegmentSink) -> None:
        raise ValueError("I/O operation on closed file")

    @handler("emits")
    async def emits(job: Job, kit: AsyncKit) -> None:
        kit.emit({"number": 1})

    monkeypatch.setattr(SegmentSink, "flush", flush)
    queue = MemoryQueue()
    await queue.submit(some_jobs("emits", 1))
    report = await run_worker(queue, emits)
    assert (report.exit_code, report.failed, report.released) == (1, 0, 1)
    assert "I/O operation on closed file" in report.reason
    [job] = await queue.jobs(Selection())
    assert (job.state, job.attempts, await queue.history(job.id)) == (State.PENDING, 0, [])


class Odd(BaseException):
    pass


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error", [Odd("odd"), GeneratorExit(), KeyboardInterrupt(), SpeechlessError(), ValueError("caf\udce9")]
)
async def test_anything_a_handler_raises_is_a_failure_and_the_worker_goes_on(
    memory: MemoryQueue, run_worker: Any, error: BaseException
) -> None:
    @handler("strange", retries=0)
    async def strange(job: Any) -> None:
        raise error

    await memory.submit([new_job("strange", {}), new_job("echo", {})])
    report = await run_worker(memory, strange, echo)
    assert await states(memory) == [State.FAILED, State.COMPLETED]
    assert report.exit_code == 0
