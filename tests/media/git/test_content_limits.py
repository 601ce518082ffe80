"""An accepted job can always be rewritten: sizes, failures, histories, and JSON that others wrote."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, UsageError
from longshore.extensions.presence import WorkerInfo
from longshore.job import NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.objects import objects
from longshore.media.git.state import archive, content_limits
from longshore.media.git.state.branch_files import BranchJob
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Reaped, Selection, Submitted, totals

ACCEPTED = 100_000
ALL = Selection()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the size limit of jobs; all other limits stay."""
    monkeypatch.setattr(content_limits, "ACCEPTED", ACCEPTED)
    for module in (content_limits, objects, archive):
        monkeypatch.setattr(module, "LARGEST", ACCEPTED + content_limits.ROOM)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.fixture
async def queue(remote: Path, tmp_path: Path, clock: ManualClock) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", clock, tmp_path / "cache")


def job(key: str, payload: dict[str, Any] | None = None, **more: Any) -> NewJob:
    return NewJob(run="r", kind="page", key=key, payload=payload or {}, **more)


async def submit_largest(queue: GitQueue, **more: Any) -> None:
    """Submit the largest accepted job, to the byte."""
    few, many = 0, ACCEPTED
    while many - few > 1:
        middle = (few + many) // 2
        try:
            content_limits.accepted(BranchJob.of(job("big", {"x": "x" * middle}, **more), queue._clock.now()))
        except UsageError:
            many = middle
        else:
            few = middle
    with pytest.raises(UsageError, match="too large for a git queue"):
        await queue.submit([job("big", {"x": "x" * many}, **more)])
    assert await queue.submit([job("big", {"x": "x" * few}, **more)]) == Submitted(1, 0)


async def claimed(queue: GitQueue, limit: int = 1, label: str = "anna") -> list[Lease]:
    return await queue.claim(Want(worker=WorkerId.new(label), limit=limit, lease=timedelta(seconds=5)))


async def test_the_largest_accepted_job_comes_back_from_a_dead_worker(queue: GitQueue, clock: ManualClock) -> None:
    await submit_largest(queue)
    await queue.submit([job("small")])
    assert len(await claimed(queue, 2, label="\x01" * content_limits.LONGEST_LABEL)) == 2
    await queue.reap()
    clock.advance(10)
    assert await queue.reap() == Reaped(returned=2)
    assert len(await claimed(queue, 2)) == 2
    await queue.close()


async def test_the_largest_job_can_fail_repeatedly_with_very_long_messages_and_then_complete(
    queue: GitQueue, clock: ManualClock
) -> None:
    await submit_largest(queue, max_attempts=100)
    words = "\x01" * 2_000_000
    for _ in range(9):
        (lease,) = await claimed(queue)
        failure = Failure("processing", f"{words} the end", words, traceback=words)
        assert await queue.settle([Settlement(lease, Failed(failure))]) == [True]
    (found,) = await queue.jobs(ALL)
    history = await queue.history(found.id)
    assert found.failure is not None
    assert found.failure.message.endswith("\x01 the end")
    assert (found.attempts, len(found.payload["x"])) == (9, len(lease.job.payload["x"]))
    assert history[-1].failure == found.failure
    assert 0 < len(history) < 9, "the oldest attempts made room for the last"
    (lease,) = await claimed(queue)
    assert await queue.settle([Settlement(lease, Completed("done"))]) == [True]
    assert await queue.archive(ALL) == 1
    (found,) = await queue.jobs(ALL)
    assert (found.state, found.result) == (State.COMPLETED, "done")
    await queue.close()


async def test_a_failure_of_usual_length_is_not_truncated(queue: GitQueue) -> None:
    await queue.submit([job("1", max_attempts=1)])
    (lease,) = await claimed(queue)
    failure = Failure("processing", "m" * 10_000, "e" * 10_000, traceback="é" * 50_000)
    await queue.settle([Settlement(lease, Failed(failure))])
    assert [found.failure for found in await queue.jobs(ALL)] == [failure]
    await queue.close()


async def test_of_calls_that_share_a_commit_only_the_invalid_one_fails(queue: GitQueue) -> None:
    await submit_largest(queue)
    await queue.submit([job("small")])
    big, small = await claimed(queue, 2)
    result = "x" * (content_limits.ROOM + 1)
    before = queue.traffic.pushes
    first, second, guilty, last = await asyncio.gather(
        queue.submit([job("new")]),
        queue.settle([Settlement(small, Completed("done", (job("follow-on"),)))]),
        queue.settle([Settlement(big, Completed(result))]),
        queue.submit([job("newer")]),
        return_exceptions=True,
    )
    assert (first, second, last) == (Submitted(1, 0), [True], Submitted(1, 0))
    assert isinstance(guilty, UsageError)
    assert queue.traffic.pushes - before <= 2
    counted = totals(await queue.stats())
    assert (counted.pending, counted.claimed, counted.completed) == (3, 1, 1)
    assert await queue.settle([Settlement(big, Completed("short"))]) == [True]
    await queue.close()


async def test_a_refused_call_leaves_no_partial_changes(queue: GitQueue) -> None:
    await submit_largest(queue)
    await queue.submit([job("small")])
    big, small = await claimed(queue, 2)
    both = [
        Settlement(small, Completed("done", (job("follow-on"),))),
        Settlement(big, Completed("x" * content_limits.ROOM)),
    ]
    with pytest.raises(UsageError):
        await queue.settle(both)
    counted = totals(await queue.stats())
    assert (counted.pending, counted.claimed, counted.completed) == (0, 2, 0)
    await queue.close()


async def test_dead_workers_are_found_although_calls_keep_failing(queue: GitQueue, clock: ManualClock) -> None:
    await submit_largest(queue)
    (big,) = await claimed(queue)
    await queue.submit([job("small")])
    await claimed(queue, label="dead")
    await queue.reap()
    for _ in range(6):
        clock.advance(1)
        await queue.renew(big.worker, timedelta(seconds=5))
        with pytest.raises(UsageError):
            await queue.settle([Settlement(big, Completed("x" * content_limits.ROOM))])
    assert await queue.reap() == Reaped(returned=1)
    await queue.close()


async def test_the_size_limit_applies_to_json_as_longshore_rewrites_it(queue: GitQueue) -> None:
    numbers = msgspec.Raw(b"[" + b",".join([b"1e15"] * (ACCEPTED // 10)) + b"]")
    with pytest.raises(UsageError, match="too large"):
        await queue.submit([job("grows", {"numbers": numbers})])
    await queue.close()


@pytest.mark.parametrize("raw", [b"1e999", b'"\xff"', b"NaN", b'"\\ud800"', b"{", b"1 2", b"[" * 300 + b"]" * 300])
@pytest.mark.parametrize("within", [False, True], ids=["alone", "within"])
async def test_json_that_cannot_be_read_back_is_refused_everywhere(queue: GitQueue, raw: bytes, within: bool) -> None:
    await queue.submit([job("1")])
    (lease,) = await claimed(queue)
    value: Any = {"a": [msgspec.Raw(raw)]} if within else msgspec.Raw(raw)
    with pytest.raises(UsageError):
        await queue.settle([Settlement(lease, Completed(value))])
    with pytest.raises(UsageError):
        await queue.settle([Settlement(lease, Completed(None, (job("2", {"a": value}),)))])
    with pytest.raises(UsageError):
        await queue.submit([job("2", {"a": value})])
    with pytest.raises(UsageError):
        await queue.register(lease.worker, timedelta(seconds=5), WorkerInfo(machine=value))
    with pytest.raises(UsageError):
        await queue.settle([Settlement(lease, Failed(Failure("processing", "\ud800")))])
    assert [found.state for found in await queue.jobs(ALL)] == [State.CLAIMED]
    assert await queue.settle([Settlement(lease, Completed(msgspec.Raw(b'{"a": 1E2}')))]) == [True]
    assert [found.result for found in await queue.jobs(ALL)] == [{"a": 100.0}]
    await queue.close()


async def test_a_worker_with_too_long_a_label_or_info_is_refused(queue: GitQueue) -> None:
    await queue.submit([job("1")])
    with pytest.raises(UsageError, match="label"):
        await claimed(queue, label="a" * (content_limits.LONGEST_LABEL + 1))
    with pytest.raises(UsageError, match="info of a worker"):
        await queue.register(WorkerId.new("anna"), timedelta(seconds=5), WorkerInfo(machine="x" * content_limits.ROOM))
    assert (len(await claimed(queue)), await queue.present_workers()) == (1, [])
    await queue.close()


async def test_many_long_results_of_one_month_are_archived_and_can_be_read(
    queue: GitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MAX_BYTES", 50_000)
    monkeypatch.setattr(archive, "LARGEST", 100_000)
    await queue.submit([job(f"{n}") for n in range(30)])
    leases = await claimed(queue, 30)
    await queue.settle([Settlement(lease, Completed("x" * 20_000)) for lease in leases])
    assert await queue.archive(ALL) == 30
    assert [len(found.result) for found in await queue.jobs(ALL)] == [20_000] * 30
    (month,) = await queue.archived()
    assert (month.jobs, month.files) == (30, 15)
    await queue.close()
