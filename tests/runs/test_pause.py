"""Runs that are paused: nothing of them begins, everything else goes on, and so do they once they may."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.clock import ManualClock
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection, Traits
from longshore.runs.control.pause import EVERYTHING, pause, paused, resume
from longshore.worker import MaxEmptyPolls, RunFinished, WorkerConfig, work
from longshore.wrappers.paused import PausableQueue

WORKER = WorkerId.new("tester")


async def filled(clock: ManualClock | None = None) -> MemoryQueue:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"number": number}, run=run) for run in ("a", "b", "c") for number in range(3)])
    return queue


async def claimed(queue: PausableQueue, limit: int = 20, run: str | None = None) -> list[str]:
    leases = await queue.claim(Want(worker=WORKER, limit=limit, run=run))
    return sorted(lease.job.run for lease in leases)


async def test_a_paused_run_is_not_claimed_from_and_the_others_are() -> None:
    queue = await filled()
    assert await pause(queue, "b")
    pausing = PausableQueue(queue, ManualClock())
    assert await claimed(pausing, run="b") == []
    assert await claimed(pausing, limit=4) == ["a", "a", "a", "c"]
    assert await claimed(pausing) == ["c", "c"]
    assert await claimed(pausing) == []


async def test_a_run_that_goes_on_is_claimed_from_within_seconds() -> None:
    clock = ManualClock()
    queue = await filled(clock)
    await pause(queue, "b")
    pausing = PausableQueue(queue, clock)
    assert await claimed(pausing, run="b") == []
    assert await resume(queue, "b")
    clock.advance(3)
    assert await claimed(pausing, run="b") == ["b", "b", "b"]


@pytest.mark.parametrize(("what", "command"), [("b", "longshore resume b"), (EVERYTHING, "longshore resume --all")])
async def test_a_worker_logs_the_command_that_ends_a_pause(what: str, command: str) -> None:
    queue = await filled()
    await pause(queue, what)
    with capture_logs() as logs:
        assert await claimed(PausableQueue(queue, ManualClock()), run="b") == []
    (paused_line,) = [entry["event"] for entry in logs if entry["event"].startswith("PAUSED")]
    assert f"`{command}`" in paused_line


async def test_everything_may_be_paused_at_once() -> None:
    queue = await filled()
    await pause(queue, EVERYTHING)
    pausing = PausableQueue(queue, ManualClock())
    assert await claimed(pausing) == []
    assert await claimed(pausing, run="a") == []


async def test_waiting_for_work_of_a_paused_run_is_no_busy_loop() -> None:
    clock = ManualClock()
    queue = await filled(clock)
    await pause(queue, "b")
    pausing = PausableQueue(queue, clock)
    want = Want(worker=WORKER, run="b")
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    assert await pausing.wait(want, timedelta(seconds=60)) is False
    assert slept == [3.0]
    assert await pausing.wait(Want(worker=WORKER, run="a"), timedelta(seconds=60)) is True
    assert slept == [3.0]


async def test_pausing_twice_and_resuming_twice_is_said_and_harmless() -> None:
    clock = ManualClock()
    queue = await filled(clock)
    assert [await pause(queue, "a"), await pause(queue, "a")] == [True, False]
    clock.advance(5)
    assert await paused(queue) == {"a": clock.now() - 5}
    assert [await resume(queue, "a"), await resume(queue, "a")] == [True, False]
    assert await paused(queue) == {}


async def test_a_medium_without_notes_pauses_nothing() -> None:
    queue = await filled()
    queue.traits = Traits(name="plain", spans_processes=False, spans_machines=False, wakes=False)
    assert await paused(queue) == {}
    assert len(await claimed(PausableQueue(queue, ManualClock()))) == 9
    with pytest.raises(Exception, match="A plain queue cannot pause runs"):
        await pause(queue, "a")


@handler("page")
async def page(job: Any) -> Any:
    return job.payload


async def test_a_worker_leaves_a_paused_run_alone_and_finishes_the_rest(tmp_path: Path) -> None:
    queue = await filled()

    def config(*stop: Any) -> WorkerConfig:
        return WorkerConfig(
            queue_url="memory://",
            handler_file=tmp_path / "handlers.py",
            worker=WORKER,
            poll_interval=timedelta(milliseconds=50),
            stop=stop,
            keep_awake=False,
        )

    await pause(queue, "b")
    report = await work(config(MaxEmptyPolls(2)), handlers={"page": page}, queue=queue)
    assert report.completed == 6
    assert {job.run for job in await queue.jobs(Selection(states=frozenset({State.PENDING})))} == {"b"}
    await resume(queue, "b")
    assert (await work(config(RunFinished()), handlers={"page": page}, queue=queue)).completed == 3
