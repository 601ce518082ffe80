"""`longshore release`: jobs come out of the hands of workers, on every medium, and nothing else changes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from tests.services.postgres import PostgresServer

from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Selection
from longshore.runs.control.release import ReleaseResult, release
from longshore.runs.transfer.copy_jobs import MOVER
from longshore.worker import RunFinished, WorkerConfig, work
from longshore.worker.kit.config import KitConfig

Says = Callable[..., str]
LEASE = timedelta(hours=1)


def url_of(tmp_path: Path, scheme: str, server: PostgresServer | None = None) -> str:
    match scheme:
        case "postgres" if server is not None:
            return f"{server.url}?schema=release_{token_hex(4)}"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'queue.db'}"
        case "dir":
            return f"dir://{tmp_path / 'queue'}"
    subprocess.run(["git", "init", "--bare", "-q", str(tmp_path / "queue.git")], check=True)
    return f"git+file://{tmp_path / 'queue.git'}"


async def held(queue: Queue, worker: WorkerId, *, on_roll: bool) -> None:
    """Four jobs: one that failed once, and all of them claimed by the worker but the last."""
    await queue.submit([new_job("page", {"number": number}, run="r", partition=str(number)) for number in range(4)])
    if on_roll:
        await require(queue, WorkerRegistry, "lacks it").register(worker, LEASE, WorkerInfo())
    (first,) = await queue.claim(Want(worker=worker, limit=1, lease=LEASE))
    await queue.settle([Settlement(first, Failed(Failure("timeout", "too slow", retryable=True)))])
    assert len(await queue.claim(Want(worker=worker, limit=3, lease=LEASE))) == 3


@pytest.mark.parametrize("on_roll", [True, False])
@pytest.mark.parametrize("scheme", ["sqlite", "dir", "git", "postgres"])
async def test_what_a_worker_holds_is_pending_again_on_every_medium(
    tmp_path: Path, scheme: str, on_roll: bool, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("server") if scheme == "postgres" else None
    queue = await open_queue(url_of(tmp_path, scheme, server))
    worker = WorkerId.new("w")
    try:
        await held(queue, worker, on_roll=on_roll)
        before = {job.id: job for job in await queue.jobs(Selection())}
        done = await release(queue, Selection(run="r"))
        assert done == ReleaseResult(released=3)
        after = {job.id: job for job in await queue.jobs(Selection())}
        assert {job.state for job in after.values()} == {State.PENDING}
        assert {job.id: job.attempts for job in after.values()} == {job.id: job.attempts for job in before.values()}
        # The holder learns of it, and the fence holds.
        assert await queue.renew(worker, LEASE) == []
        again = await queue.claim(Want(worker=WorkerId.new("w"), limit=4, lease=LEASE))
        assert len(again) == 4
        assert all(lease.epoch > before[lease.job.id].epoch for lease in again)
        assert await queue.settle([Settlement(lease, Completed("new")) for lease in again]) == [True] * 4
    finally:
        await queue.close()


async def test_of_two_workers_with_one_label_the_right_one_loses_its_jobs(tmp_path: Path) -> None:
    queue = await open_queue(url_of(tmp_path, "dir"))
    one, two = WorkerId.new("w"), WorkerId.new("w")
    await queue.submit([new_job("page", {"number": number}, run=f"r{number % 2}") for number in range(10)])
    for number, worker in enumerate((one, two)):
        await require(queue, WorkerRegistry, "lacks it").register(worker, LEASE, WorkerInfo())
        await queue.claim(Want(worker=worker, limit=10, lease=LEASE, run=f"r{number}"))
    assert await release(queue, Selection(run="r1")) == ReleaseResult(released=5)
    assert (len(await queue.renew(one, LEASE)), await queue.renew(two, LEASE)) == (5, [])
    await queue.close()


async def test_what_is_settled_meanwhile_stays_settled() -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"number": 1})])
    (lease,) = await queue.claim(Want(worker=WorkerId.new("w")))
    jobs = queue.jobs

    async def late(selection: Selection, *, after: str = "", limit: int = 1000) -> object:
        found = await jobs(selection, after=after, limit=limit)
        await queue.settle([Settlement(lease, Completed("done"))])
        return found

    queue.jobs = late  # type: ignore[method-assign, assignment]
    assert await release(queue, Selection()) == ReleaseResult()
    (job,) = await jobs(Selection())
    assert (job.state, job.result) == (State.COMPLETED, "done")


async def test_what_is_on_its_way_to_another_queue_stays() -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"number": 1})])
    await queue.claim(Want(worker=WorkerId(f"{MOVER}x", f"{MOVER}x")))
    assert await release(queue, Selection()) == ReleaseResult(moving=1)
    assert [job.state for job in await queue.jobs(Selection())] == [State.CLAIMED]


@pytest.fixture
def filled(here: Path) -> None:
    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await held(queue, WorkerId.new("w"), on_roll=False)
        await queue.close()

    asyncio.run(put())


@pytest.mark.usefixtures("filled")
def test_the_command_counts_asks_and_says_what_it_did(says: Says, refused: Callable[..., str]) -> None:
    assert "This would release 3 jobs, and there is no terminal to ask at. Add --yes." in refused(
        "release", "--run", "r"
    )
    assert says("release", "--run", "r", "--error", "time*", "--yes") == "1 job is pending again.\n"
    assert says("release", "--run", "r", "--partition", "1,2,3", "--older-than", "0s", "--yes") == (
        "2 jobs are pending again.\n"
    )
    assert says("release", "--run", "r", "--yes") == "No such jobs: nothing to release.\n"
    found = json.loads(says("jobs", "--json"))
    assert {(job["state"], job["attempts"]) for job in found} == {("pending", 0), ("pending", 1)}


@pytest.mark.usefixtures("filled")
def test_a_job_that_nobody_holds_cannot_be_released(says: Says, refused: Callable[..., str]) -> None:
    assert "Jobs that are pending cannot be changed by release" in refused("release", "--state", "pending", "--yes")
    assert says("release", "4") == "Job 4 is pending: nothing to release.\n"
    assert "Say which jobs to release" in refused("release", "--yes")


async def test_a_worker_whose_job_is_released_ends_the_attempt_and_may_have_it_again(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("slow", {"number": 1})])
    begun, attempts = asyncio.Event(), list[int]()

    @handler("slow", timeout=60)
    async def slow(job: Any) -> int:
        attempts.append(job.epoch)
        begun.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return job.epoch  # type: ignore[no-any-return]

    config = WorkerConfig(
        queue_url="memory://",
        handler_file=tmp_path / "handlers.py",
        kit=KitConfig(folder=str(tmp_path)),
        poll_interval=timedelta(milliseconds=50),
        stop=(RunFinished(),),
        keep_awake=False,
    )
    working = asyncio.ensure_future(work(config, handlers={"slow": slow}, queue=queue))
    await begun.wait()
    assert await release(queue, Selection()) == ReleaseResult(released=1)
    await asyncio.wait_for(working, 60)
    (job,) = await queue.jobs(Selection())
    assert (job.state, job.result, job.attempts, attempts) == (State.COMPLETED, 2, 1, [1, 2])
    assert await queue.history(job.id) == []
