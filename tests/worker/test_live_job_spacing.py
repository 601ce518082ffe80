"""The tempo of a worker: pauses between jobs and jobs at once, at the start and when they change (B8)."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.handlers.handler import handler
from longshore.job import State
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.settings import SecondsRange, Settings
from longshore.worker import RunFinished, WorkerConfig, WorkerReport, work
from longshore.worker.lifecycle.live_settings import LiveSettings


class Yard:
    """A worker on a queue in memory, whose settings and clock a test changes."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.queue = MemoryQueue(self.clock)
        self.begun: list[float] = []
        self.most = self.now = 0
        self.gates: dict[int, asyncio.Event] = {}
        self._settings = Settings()
        self._folder = folder
        self._live: LiveSettings

        @handler("job", timeout=3600)
        async def job(job: Any) -> None:
            self.begun.append(self.clock.monotonic())
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            if gate := self.gates.get(job.payload["number"]):
                await gate.wait()
            self.now -= 1

        self.handler = job

    def work(self, **settings: Any) -> asyncio.Task[WorkerReport]:
        self._settings = replace(self._settings, **settings)
        self._live = LiveSettings(lambda: self._settings, self._folder)
        config = WorkerConfig(
            queue_url="memory://",
            handler_file=self._folder / "handlers.py",
            worker=WorkerId.new("tester"),
            concurrency=self._settings.concurrency,
            delay=self._settings.delay,
            stop=(RunFinished(),),
            keep_awake=False,
        )
        handlers = {"job": self.handler}
        return asyncio.create_task(work(config, clock=self.clock, handlers=handlers, queue=self.queue, live=self._live))

    def ask(self, **settings: Any) -> None:
        self._settings = replace(self._settings, **settings)
        self._live.ask()

    async def change(self, **settings: Any) -> None:
        self.ask(**settings)
        await self.until(lambda: self._live.settings == self._settings)

    def hold(self, *numbers: int) -> None:
        self.gates |= {number: asyncio.Event() for number in numbers}

    def let_go(self, *numbers: int) -> None:
        for number in numbers or self.gates:
            self.gates[number].set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the worker go on, at one instant of the clock, until this holds."""
        async with asyncio.timeout(60):
            while not condition():
                await _a_moment()

    async def until_states(self, state: State, count: int) -> None:
        """The same, until this many jobs are in that state."""
        async with asyncio.timeout(60):
            while (await self.states())[state] != count:
                await _a_moment()

    async def states(self) -> Counter[State]:
        return Counter(job.state for job in await self.queue.jobs(Selection()))


async def _a_moment() -> None:
    await asyncio.sleep(0.001)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def test_a_worker_pauses_between_two_jobs(yard: Yard, some_jobs: Any, advance: Any) -> None:
    await yard.queue.submit(some_jobs("job", 6))
    task = yard.work(concurrency=1, min_delay_seconds=8.0, max_delay_seconds=20.0)
    report = await advance(task, yard.clock)
    gaps = [after - before for before, after in pairwise(yard.begun)]
    assert report.completed == 6
    assert yard.begun[0] == 0
    assert all(gap >= 8 for gap in gaps)
    assert len(set(gaps)) > 1


async def test_the_pause_is_one_for_the_whole_worker_however_many_it_runs_at_once(
    yard: Yard, some_jobs: Any, advance: Any
) -> None:
    yard.hold(0, 1, 2)
    await yard.queue.submit(some_jobs("job", 6))
    task = yard.work(concurrency=3, min_delay_seconds=10.0)
    await yard.until(lambda: len(yard.begun) == 1)
    for begun in (2, 3):
        # A waiting executor has read the clock before it sleeps.
        for _ in range(20):
            await _a_moment()
        yard.clock.advance(10.0)
        await yard.until(lambda begun=begun: len(yard.begun) == begun)  # type: ignore[misc]
    yard.let_go()
    assert (await advance(task, yard.clock)).completed == 6
    assert yard.most == 3
    assert all(after - before >= 10 for before, after in pairwise(yard.begun))


async def test_the_pause_counts_from_the_end_of_a_job(yard: Yard, some_jobs: Any) -> None:
    yard.hold(0)
    await yard.queue.submit(some_jobs("job", 2))
    task = yard.work(concurrency=1, min_delay_seconds=10.0)
    await yard.until(lambda: len(yard.begun) == 1)
    yard.clock.advance(100.0)
    yard.let_go()
    await yard.until(lambda: yard.now == 0)
    yard.clock.advance(9.0)
    assert (await yard.states())[State.CLAIMED] == 0
    assert len(yard.begun) == 1
    yard.clock.advance(1.0)
    await yard.until(lambda: yard.begun == [0, 110])
    report = await asyncio.wait_for(task, 60)
    assert (report.completed, report.reason) == (2, "every run is finished")  # without waiting for a last pause


async def test_nothing_is_held_during_a_pause(yard: Yard, some_jobs: Any) -> None:
    await yard.queue.submit(some_jobs("job", 5))
    task = yard.work(concurrency=4, min_delay_seconds=10.0)
    await yard.until(lambda: len(yard.begun) == 1)
    await yard.until_states(State.COMPLETED, 1)
    assert await yard.states() == {State.COMPLETED: 1, State.PENDING: 4}
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(task, 60)


async def test_a_pause_does_not_hold_up_the_end(yard: Yard, some_jobs: Any) -> None:
    await yard.queue.submit(some_jobs("job", 3))
    task = yard.work(concurrency=3, min_delay_seconds=1e6)
    await yard.until(lambda: len(yard.begun) == 1 and yard.now == 0)
    signal.raise_signal(signal.SIGTERM)
    report = await asyncio.wait_for(task, 60)
    assert (report.completed, report.exit_code) == (1, 0)
    assert await yard.states() == {State.COMPLETED: 1, State.PENDING: 2}


async def test_a_shorter_pause_counts_for_the_one_under_way(yard: Yard, some_jobs: Any, advance: Any) -> None:
    await yard.queue.submit(some_jobs("job", 3))
    task = yard.work(concurrency=2, min_delay_seconds=1e6)
    await yard.until(lambda: len(yard.begun) == 1 and yard.now == 0)
    await yard.change(min_delay_seconds=5.0)
    yard.clock.advance(5.0)
    await yard.until(lambda: yard.begun == [0, 5])
    await yard.change(min_delay_seconds=0.0)
    await yard.until(lambda: yard.begun == [0, 5, 5])
    assert (await advance(task, yard.clock)).completed == 3


async def test_when_pauses_begin_what_lies_ready_is_given_back(yard: Yard, some_jobs: Any, advance: Any) -> None:
    quick, slow = range(50), range(50, 400)
    yard.hold(*slow)
    await yard.queue.submit(some_jobs("job", 400))
    task = yard.work(concurrency=2)
    await yard.until(lambda: yard.now == 2 and len(yard.begun) == len(quick) + 2)
    assert (await yard.states())[State.CLAIMED] > 2
    await yard.change(min_delay_seconds=10.0)
    await yard.until_states(State.CLAIMED, 2)
    await yard.change(min_delay_seconds=0.0)
    yard.let_go()
    report = await advance(task, yard.clock)
    assert (report.completed, report.stale, yard.most) == (400, 0, 2)
    assert report.released > 0


async def test_more_at_once_begin_at_once(yard: Yard, some_jobs: Any, advance: Any) -> None:
    yard.hold(*range(10))
    await yard.queue.submit(some_jobs("job", 10))
    task = yard.work(concurrency=1)
    await yard.until(lambda: yard.now == 1)
    await yard.change(concurrency=4)
    await yard.until(lambda: yard.now == 4)
    yard.let_go()
    report = await advance(task, yard.clock)
    assert (report.completed, report.stale, yard.most) == (10, 0, 4)


async def test_fewer_at_once_let_those_under_way_finish_and_lose_nothing(
    yard: Yard, some_jobs: Any, advance: Any
) -> None:
    yard.hold(*range(6))
    await yard.queue.submit(some_jobs("job", 20))
    task = yard.work(concurrency=4)
    await yard.until(lambda: yard.now == 4)
    await yard.change(concurrency=1)
    yard.let_go(0, 1, 2)
    await yard.until(lambda: yard.now == 1)
    yard.let_go(3)
    await yard.until(lambda: len(yard.begun) == 5)
    assert yard.now == 1
    yard.most = 0
    yard.let_go()
    report = await advance(task, yard.clock)
    assert (report.completed, report.claimed, report.stale, yard.most) == (20, 20, 0, 1)
    assert len(yard.begun) == 20


async def test_a_retired_executor_is_used_again_when_concurrency_rises(
    yard: Yard, some_jobs: Any, advance: Any
) -> None:
    yard.hold(*range(6))
    await yard.queue.submit(some_jobs("job", 6))
    task = yard.work(concurrency=3)
    await yard.until(lambda: yard.now == 3)
    await yard.change(concurrency=1)
    await yard.change(concurrency=3)
    yard.let_go(0, 1, 2)
    await yard.until(lambda: len(yard.begun) == 6)
    assert yard.now == 3
    yard.let_go()
    assert (await advance(task, yard.clock)).completed == 6
    assert yard.most == 3


async def test_an_idle_worker_takes_on_a_change_and_the_work_that_follows(
    yard: Yard, some_jobs: Any, advance: Any
) -> None:
    yard.hold(0)
    await yard.queue.submit(some_jobs("job", 1))
    task = yard.work(concurrency=8)
    await yard.until(lambda: yard.now == 1)
    await yard.change(concurrency=2)
    await yard.change(concurrency=5, min_delay_seconds=10.0)
    await yard.queue.submit(some_jobs("job", 5))
    yard.let_go()
    report = await advance(task, yard.clock)
    assert report.completed == 5  # one of the five was known
    assert all(after - before >= 10 for before, after in pairwise(yard.begun))


async def test_a_worker_whose_spacing_changes_all_the_time_does_every_job_once(
    yard: Yard, some_jobs: Any, advance: Any
) -> None:
    await yard.queue.submit(some_jobs("job", 600))
    task = yard.work(concurrency=3)
    for number in range(20_000):
        if task.done():
            break
        yard.ask(concurrency=1 + number % 7, min_delay_seconds=0.01 * (number % 3))
        for _ in range(number % 11):
            await asyncio.sleep(0)
        yard.clock.advance(0.05)
    yard.ask(min_delay_seconds=0.0)
    report = await advance(task, yard.clock)
    assert (report.completed, report.stale, len(yard.begun)) == (600, 0, 600)
    assert yard.most > 1


def test_a_pause_of_nothing_is_no_pause() -> None:
    assert Settings(min_delay_seconds=0.0).delay == SecondsRange(0.0, 0.0)
