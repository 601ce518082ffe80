"""On media without a clock, a process that has just started can tell that a worker died long ago."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.extensions.presence import PresentWorker, WorkerInfo, WorkerRegistry
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.queue import Queue, Reaped
from longshore.runs.watch.active_workers import ActiveWorkers, active_among

LEASE = timedelta(seconds=60)
ANNA = WorkerId("anna", "anna/1")
INFO = WorkerInfo(slots=2, busy=1, run="r")

OpenOn = Callable[[str], Awaitable[Queue]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["directory", "git"])
def open_on(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> OpenOn:
    """Return a function that opens one queue on a machine: processes of a machine share a cache folder."""
    url = f"dir://{tmp_path}/queue"
    if request.param == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "queue.git")], check=True)
        url = f"git+file://{tmp_path}/queue.git"

    async def open_on(machine: str) -> Queue:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
        return await open_queue(url, clock=clock)

    return open_on


async def present(queue: Queue) -> list[PresentWorker]:
    assert isinstance(queue, WorkerRegistry)
    return await queue.present_workers()


async def held_by_anna(open_on: OpenOn) -> None:
    """Let a worker on another machine register, claim a job and die."""
    queue = await open_on("anna's")
    assert isinstance(queue, WorkerRegistry)
    await queue.submit([NewJob(run="r", kind="page", key="a", payload={})])
    await queue.register(ANNA, LEASE, INFO)
    assert len(await queue.claim(Want(worker=ANNA, lease=LEASE))) == 1
    await queue.close()


async def test_a_machine_that_never_looked_before_says_for_how_long_a_worker_was_not_seen(
    open_on: OpenOn, clock: ManualClock
) -> None:
    await held_by_anna(open_on)
    clock.advance(1200)
    queue = await open_on("new")
    assert await present(queue) == [PresentWorker(ANNA, INFO, 1200.0)]
    assert active_among(await present(queue), "r") == ActiveWorkers(workers=0, unseen=1, unseen_seconds=1200.0)
    assert await queue.reap() == Reaped(), "the clocks of two machines decide nothing"
    clock.advance(61)
    assert await queue.reap() == Reaped(returned=1)
    await queue.close()


async def test_what_an_earlier_process_of_the_machine_saw_counts(open_on: OpenOn, clock: ManualClock) -> None:
    await held_by_anna(open_on)
    early = await open_on("here")
    assert await present(early) == [PresentWorker(ANNA, INFO)]
    await early.close()
    clock.advance(1200)
    late = await open_on("here")
    assert [each.unseen_seconds for each in await present(late)] == [1200.0]
    assert await late.reap() == Reaped(), "a worker that could not write for a time gets the time to do so"
    clock.advance(21)
    assert await late.reap() == Reaped(returned=1), "a third of a lease later, not a whole one"
    assert await present(late) == []
    await late.close()


async def test_processes_that_each_look_once_bring_the_jobs_back(open_on: OpenOn, clock: ManualClock) -> None:
    await held_by_anna(open_on)
    returned = 0
    for _ in range(5):
        queue = await open_on("here")
        returned += (await queue.reap()).returned
        await queue.close()
        clock.advance(20)
    assert returned == 1


async def test_a_worker_whose_clock_is_an_hour_behind_is_at_work_as_soon_as_it_is_seen_to_renew(
    open_on: OpenOn, clock: ManualClock
) -> None:
    clock.step_wall(-3600)
    worker = await open_on("anna's")
    assert isinstance(worker, WorkerRegistry)
    await worker.register(ANNA, LEASE, INFO)
    clock.step_wall(3600)
    observer = await open_on("new")
    assert [each.unseen_seconds for each in await present(observer)] == [3600.0]
    clock.step_wall(-3600)
    await worker.register(ANNA, LEASE, INFO)
    clock.step_wall(3600)
    assert await present(observer) == [PresentWorker(ANNA, INFO)]
    await worker.close()
    await observer.close()
