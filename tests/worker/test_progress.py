"""The log of a worker whose queue hangs: it is alive, how many outcomes wait, and what is wrong (A12)."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.handlers.handler import handler
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure
from longshore.worker.status.worker_status import WorkerStatus
from longshore.wrappers.call_timer import TimedQueue


@handler("echo")
async def echo(job: Any) -> Any:
    return job.payload


class Hanging(MemoryQueue):
    """A queue that takes jobs in and hands them out, and answers nothing else until it is let go."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def settle(self, settlements: Any) -> list[bool]:
        self.asked.set()
        await self.go.wait()
        return await super().settle(settlements)

    async def stats(self, run: str | None = None) -> Any:
        await self.go.wait()
        return await super().stats(run)


@pytest.fixture
def said() -> Callable[[str], list[dict[str, Any]]]:
    """The lines of the log that begin like this."""
    stream = io.StringIO()
    configure(format="json", stream=stream)

    def lines(beginning: str) -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [entry for entry in entries if entry["message"].startswith(beginning)]

    return lines


async def pass_time(clock: ManualClock, seconds: float) -> None:
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        clock.advance(0.5)
        for _ in range(20):
            await asyncio.sleep(0)


async def test_a_queue_that_hangs_keeps_no_progress_line_back_and_is_named_in_each(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, said: Any
) -> None:
    queue = Hanging(clock)
    await queue.submit(some_jobs("echo", 3))
    task = asyncio.create_task(run_worker(queue, echo, clock=clock))
    await queue.asked.wait()
    await pass_time(clock, 95)
    lines = said("Progress")
    assert len(lines) == 3
    assert all(line["health"].startswith("the queue does not answer (for ") for line in lines)
    assert all(line["unwritten"] == 3 for line in lines)
    assert all("remaining" not in line for line in lines)
    queue.go.set()
    assert (await advance(task, clock)).completed == 3


async def test_stopping_a_worker_whose_queue_hangs_logs_how_many_outcomes_wait(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, said: Any
) -> None:
    queue = Hanging(clock)
    await queue.submit(some_jobs("echo", 3))
    task = asyncio.create_task(run_worker(queue, echo, clock=clock))
    await queue.asked.wait()
    signal.raise_signal(signal.SIGINT)
    await pass_time(clock, 1)
    (line,) = said("STOPPING")
    assert line["message"] == ("STOPPING: SIGINT received; finishing 0 jobs under way, 3 outcomes wait to be written")
    await pass_time(clock, 35)
    assert said("Progress")
    queue.go.set()
    report = await advance(task, clock)
    assert (report.completed, report.exit_code) == (3, 0)


async def test_the_status_says_that_the_queue_does_not_answer(
    clock: ManualClock, some_jobs: Any, advance: Any, tmp_path: Any
) -> None:
    from longshore.worker import RunFinished, WorkerConfig, work

    shown: list[WorkerStatus] = []
    queue = Hanging(clock)
    await queue.submit(some_jobs("echo", 1))
    config = WorkerConfig(
        queue_url="memory://", handler_file=tmp_path / "h.py", stop=(RunFinished(),), keep_awake=False
    )
    working = work(config, clock=clock, handlers={"echo": echo}, queue=queue, watcher=shown.append)
    task = asyncio.create_task(working)
    await queue.asked.wait()
    await pass_time(clock, 30)
    assert {status.trouble for status in shown} == {"", "the queue does not answer"}
    queue.go.set()
    await advance(task, clock)
    assert shown[-1].trouble == ""


async def test_only_unanswered_calls_count_as_silence(clock: ManualClock) -> None:
    queue = Hanging(clock)
    attended = TimedQueue(queue, clock)
    first = asyncio.create_task(attended.stats())
    await asyncio.sleep(0)
    clock.advance(10)
    second = asyncio.create_task(attended.stats())
    await asyncio.sleep(0)
    clock.advance(5)
    assert attended.silence == 15
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert attended.silence == 5
    queue.go.set()
    assert await second == []
    assert attended.silence == 0
    assert attended.traits is queue.traits
