"""A `Worker` class keeps to what is said of a run: pause and limits, in `run` and in a loop of the user's own (E2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from longshore import Result, Worker, new_job
from longshore.clock import SystemClock
from longshore.errors import QueueUnavailableError
from longshore.handlers.worker_class import Task
from longshore.job import State
from longshore.lease import Lease, Want
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, totals
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, set_limits
from longshore.runs.control.pause import EVERYTHING, pause

T = TypeVar("T")


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


class Grows(Worker):
    """Adds three jobs for each, on a queue given by the test."""

    kinds = "page"

    def __init__(self, queue: Queue, **config: Any) -> None:
        super().__init__("memory://", "w1", config)
        self.queue = queue

    async def open_queue(self) -> Queue:
        return self.queue

    def process_task(self, task: Task) -> Any:
        number = task.params["number"]
        return Result(number, jobs=[new_job("leaf", {"number": 10 * number + each}) for each in range(3)])


@pytest.fixture
def queue() -> MemoryQueue:
    made = MemoryQueue(SystemClock())
    now(made.submit([new_job("page", {"number": number}, run=run) for run in ("a", "b") for number in (1, 2)]))
    return made


def states(queue: Queue, run: str) -> list[State]:
    return [job.state for job in now(queue.jobs(Selection(run=run, kinds=frozenset({"page"}))))]


def test_run_takes_no_job_of_a_paused_run(queue: MemoryQueue) -> None:
    now(pause(queue, "a"))
    assert Grows(queue, max_runs=2).run() == 0
    assert states(queue, "a") == [State.PENDING] * 2
    assert states(queue, "b") == [State.COMPLETED] * 2


def test_claim_task_finds_nothing_while_everything_is_paused(queue: MemoryQueue) -> None:
    now(pause(queue, EVERYTHING))
    worker = Grows(queue)
    try:
        assert worker.claim_task() is None
    finally:
        worker.close()


def test_run_adds_no_job_beyond_the_limits_of_a_run_and_counts_what_it_dropped(queue: MemoryQueue) -> None:
    now(set_limits(queue, "a", GrowthLimits(max_jobs=4)))
    now(set_limits(queue, "b", GrowthLimits(max_depth=0)))
    assert Grows(queue, max_runs=4).run() == 0
    assert totals(now(queue.stats("a"))).total == 4
    assert totals(now(queue.stats("b"))).total == 2
    assert now(left_out(queue, "a")) == LeftOut(too_many=4)
    assert now(left_out(queue, "b")) == LeftOut(too_deep=6)


def test_complete_task_adds_no_job_beyond_the_limits_of_a_run(queue: MemoryQueue) -> None:
    now(set_limits(queue, "a", GrowthLimits(max_jobs=3)))
    worker = Grows(queue)
    try:
        task = worker.claim_task()
        assert task is not None
        assert worker.complete_task(task, worker.process_task(task))
    finally:
        worker.close()
    assert totals(now(queue.stats("a"))).total == 3
    assert now(left_out(queue, "a")) == LeftOut(too_many=2)


class Waited(MemoryQueue):
    """Fails when it is asked to wait for work that is paused: it would answer at once, again and again."""

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        raise AssertionError("a paused run is waited for")


def test_run_does_not_poll_without_a_break_while_its_run_is_paused() -> None:
    queue = Waited(SystemClock())
    now(queue.submit([new_job("page", {"number": 1}, run="a")]))
    now(pause(queue, "a"))

    class Stops(Grows):
        def claim_task(self) -> Task | None:
            task = super().claim_task()
            self.looks = getattr(self, "looks", 0) + 1
            self.should_stop = self.looks == 2
            return task

    worker = Stops(queue, poll_interval=0.01)
    assert worker.run() == 0
    assert worker.stats.claimed == 0


class LosesAnAnswer(MemoryQueue):
    """Claims once without saying so."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.lost = 0

    async def claim(self, want: Want) -> list[Lease]:
        leases = await super().claim(want)
        if leases and not self.lost:
            self.lost += 1
            raise QueueUnavailableError("the answer got lost")
        return leases


def test_a_job_of_a_claim_whose_answer_got_lost_is_given_back_and_done() -> None:
    queue = LosesAnAnswer()
    now(queue.submit([new_job("page", {"number": 1})]))
    assert Grows(queue, max_runs=1, lease_seconds=1, poll_interval=0.01).run() == 0
    [job] = now(queue.jobs(Selection(kinds=frozenset({"page"}))))
    assert (job.state, job.epoch, job.attempts) == (State.COMPLETED, 2, 1)


class Forgets(MemoryQueue):
    """Writes the first settlement and loses the answer."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.lost = 0

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        accepted = await super().settle(settlements)
        if not self.lost:
            self.lost += 1
            raise QueueUnavailableError("the answer got lost")
        return accepted


def test_a_settlement_whose_answer_got_lost_is_no_lost_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.handlers.lease_keeper.FIRST_PAUSE", 0.001)
    queue = Forgets()
    now(queue.submit([new_job("page", {"number": 1})]))
    worker = Grows(queue, max_runs=1)
    assert worker.run() == 0
    assert queue.lost == 1
    assert worker.stats.completed == 1


class Refuses(MemoryQueue):
    """Cannot store the result of the first job."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if any(isinstance(each.outcome, Completed) and each.lease.job.payload["number"] == 1 for each in settlements):
            raise ValueError("too heavy")
        return await super().settle(settlements)


def test_a_result_that_cannot_be_stored_fails_its_task_and_not_the_worker() -> None:
    queue = Refuses(SystemClock())
    now(queue.submit([new_job("page", {"number": number}) for number in (1, 2)]))
    worker = Grows(queue, max_runs=2)
    assert worker.run() == 0
    assert states(queue, "") == [State.FAILED, State.COMPLETED]
    assert (worker.stats.completed, worker.stats.failed) == (1, 1)
