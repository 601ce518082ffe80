"""Copies and moves: every job arrives as it stood, and whatever dies, none is lost or in two places."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, UsageError
from longshore.job import Job, JobName, State, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Selection
from longshore.runs.transfer import copy_jobs
from longshore.runs.transfer.copy_jobs import Copied, copy, refuse_known_runs, taking_over

from . import dying

BROKEN = Failure(error_type="processing", message="it broke")
HOUR = timedelta(hours=1)
WANDA = WorkerId.new("wanda")


def quiet(_: int) -> None:
    return None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture
def target(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_jobs, "BATCH", 2)


async def submit(queue: Queue, *keys: str, run: str = "r", **fields: Any) -> None:
    await queue.submit([new_job("page", {"key": key}, run=run, key=key, **fields) for key in keys])


async def settle(queue: Queue, *outcomes: Completed | Failed, run: str = "r") -> None:
    """Claim as many jobs and give them these outcomes."""
    leases = await queue.claim(Want(worker=WANDA, limit=len(outcomes), lease=HOUR, run=run))
    settlements = [Settlement(lease, outcome, 0.5) for lease, outcome in zip(leases, outcomes, strict=True)]
    assert all(await queue.settle(settlements))


async def one_of_each(queue: Queue) -> None:
    """Seven jobs: completed (with a child), failed, cancelled, tried once, claimed, delayed, and the child."""
    await submit(queue, "completed", "failed", "cancelled", "tried")
    child = new_job("page", {"key": "child"}, key="child")
    await settle(
        queue,
        Completed({"n": 1}, (child,)),
        Failed(msgspec.structs.replace(BROKEN, retryable=False)),
        Failed(BROKEN),
        Failed(BROKEN),
    )
    [cancelled] = [job.id for job in await queue.jobs(Selection()) if job.key == "cancelled"]
    await queue.cancel(Selection(ids=frozenset({cancelled})))
    await submit(queue, "claimed", priority=-1)
    await queue.claim(Want(worker=WANDA, limit=1, lease=HOUR))
    await submit(queue, "delayed", not_before=9_000_000_000.0)


async def by_key(queue: Queue) -> dict[str, Job]:
    return {job.key: job for job in await queue.jobs(Selection())}


def same(jobs: Iterable[Job]) -> dict[str, Job]:
    """By key, without what is a queue's own."""
    return {job.key: msgspec.structs.replace(job, id="", queue="", came_from=()) for job in jobs}


async def test_a_copy_has_every_job_as_it_stood_with_its_history(source: MemoryQueue, target: MemoryQueue) -> None:
    await one_of_each(source)
    seen: list[int] = []
    done = await copy(source, target, None, progress=seen.append)
    assert done == Copied(new=7, known=0, held=1)
    assert seen == [2, 4, 6, 7]
    before, after = same(await source.jobs(Selection())), same(await target.jobs(Selection()))
    claimed = before.pop("claimed")
    assert claimed.state is State.CLAIMED
    assert after.pop("claimed") == msgspec.structs.replace(claimed, state=State.PENDING, worker=None)
    assert after == before
    assert list(after) == list(before)
    assert after["child"].parent == JobName("page", "completed")
    ours, theirs = await by_key(source), await by_key(target)
    for key, job in ours.items():
        assert await target.history(theirs[key].id) == await source.history(job.id)
    assert len(await target.history(theirs["tried"].id)) == 1


async def test_a_copied_epoch_goes_on_from_where_it_was(source: MemoryQueue, target: MemoryQueue) -> None:
    await submit(source, "a")
    await settle(source, Failed(BROKEN))
    await copy(source, target, None, progress=quiet)
    [lease] = await target.claim(Want(worker=WANDA))
    assert (lease.epoch, lease.job.attempt) == (2, 2)


async def test_only_the_run_that_was_named_is_copied(source: MemoryQueue, target: MemoryQueue) -> None:
    await submit(source, "a", run="one")
    await submit(source, "b", run="two")
    await copy(source, target, "two", progress=quiet)
    assert list(await by_key(target)) == ["b"]


async def test_a_run_that_is_there_is_refused_by_name(source: MemoryQueue, target: MemoryQueue) -> None:
    await submit(source, "a", run="one")
    await submit(source, "a", run="two")
    await submit(target, "z", run="two")
    with pytest.raises(UsageError, match=r"run 'two'.*--resume"):
        await refuse_known_runs(source, target, None)
    await refuse_known_runs(source, target, "one")


async def test_copying_again_adds_what_is_missing_and_overwrites_nothing(
    source: MemoryQueue, target: MemoryQueue
) -> None:
    await submit(source, "a", "b")
    await copy(source, target, None, progress=quiet)
    await settle(source, Completed("here"))
    await settle(target, Completed("there"))
    await submit(source, "c")
    assert await copy(source, target, None, progress=quiet) == Copied(new=1, known=2, held=0)
    assert (await by_key(target))["a"].result == "there"


async def test_a_job_that_fails_while_it_is_copied_arrives_without_what_came_later(source: MemoryQueue) -> None:
    await submit(source, "a")
    await settle(source, Failed(BROKEN))
    [pending] = await source.jobs(Selection())
    leases = await source.claim(Want(worker=WANDA, lease=HOUR))
    [claimed] = await source.jobs(Selection())
    await source.settle([Settlement(lease, Failed(BROKEN)) for lease in leases])
    for read in (pending, claimed):
        [carried] = await copy_jobs.carried(source, [read])
        assert [attempt.epoch for attempt in carried.history] == [1]


async def test_a_medium_that_cannot_take_over_is_refused(source: MemoryQueue) -> None:
    source.traits = msgspec.structs.replace(source.traits, takes_over=False)
    with pytest.raises(UsageError, match="memory queue cannot take over"):
        taking_over(source)


async def killed(what: str, step: int, *arguments: str) -> bool:
    """Whether the process died at that step; False if it came through."""
    process = await asyncio.create_subprocess_exec(sys.executable, dying.__file__, what, str(step), *arguments)
    code = await process.wait()
    assert code in {0, -signal.SIGKILL}
    return code != 0


@pytest.mark.parametrize("what", ["copy", "move"])
async def test_killed_at_any_call_and_done_again_every_job_is_there_once(what: str, tmp_path: Path, long: bool) -> None:
    steps = itertools.count(0, 1 if long else 3)
    for number in steps:
        here, there = f"sqlite:///{tmp_path}/{number}.db", f"dir://{tmp_path}/{number}"
        source, target = await open_queue(here), await open_queue(there)
        await submit(source, *"abcdefg")
        await settle(source, Completed("A"), Completed("B"), Failed(msgspec.structs.replace(BROKEN, retryable=False)))
        died = await killed(what, number, here, there, "none")
        left = await dying.DOINGS[what](source, target, tmp_path)
        after = await by_key(target)
        assert {key: (job.state, job.result, job.attempts) for key, job in after.items()} == {
            "a": (State.COMPLETED, "A", 1),
            "b": (State.COMPLETED, "B", 1),
            "c": (State.FAILED, None, 1),
            **dict.fromkeys("defg", (State.PENDING, None, 0)),
        }
        assert (await source.stats() == []) == (what == "move"), left
        await source.close()
        await target.close()
        if not died:
            assert number > 10
            return
