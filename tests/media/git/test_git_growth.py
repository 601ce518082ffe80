"""The repository does not grow without bound: the archive, prune, and generations of the branch (A13)."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection, Submitted, each_job, totals

ALL = Selection()


def jobs(number: int, start: int = 0) -> list[NewJob]:
    return [NewJob(run="r", kind="page", key=f"{n}", payload={"n": n}) for n in range(start, start + number)]


def git_bytes(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True).stdout


def git(repository: Path, *arguments: str) -> str:
    return git_bytes(repository, *arguments).decode()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def opened(remote: Path, cache: Path, clock: ManualClock) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", clock, cache)


async def complete(queue: GitQueue, number: int) -> None:
    leases = await queue.claim(Want(worker=WorkerId.new("anna"), limit=number))
    await queue.settle([Settlement(lease, Completed({"was": lease.job.key})) for lease in leases])


async def test_archived_jobs_are_packed_by_month_and_still_in_the_queue(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "here", clock)
    other = await opened(remote, tmp_path / "there", clock)
    await queue.submit(jobs(12))
    await complete(queue, 5)
    clock.advance(40 * 86_400)
    await complete(queue, 5)
    before = [job async for job in each_job(other, ALL)]
    assert await queue.archive(Selection(older_than=timedelta(days=30))) == 5
    assert await queue.archive(ALL) == 5
    assert await queue.archive(ALL) == 0
    assert [(month.month, month.jobs) for month in await other.archived()] == [("2023-11", 5), ("2023-12", 5)]
    files = git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines()
    assert not [path for path in files if path.startswith("completed_work/")]
    part = next(path for path in files if path.startswith("archive/2023-11/"))
    packed = git_bytes(remote, "cat-file", "blob", f"longshore-1:{part}")
    lines = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    assert [line["record"]["result"] for line in lines] == [{"was": f"{n}"} for n in range(5)]
    for opening in (queue, other):
        assert [job async for job in each_job(opening, ALL)] == before
        assert (totals(await opening.stats()).completed, totals(await opening.stats()).pending) == (10, 2)
        assert await opening.submit(jobs(12)) == Submitted(new=0, duplicates=12)
    await queue.close()
    await other.close()


async def test_prune_removes_old_jobs_from_the_archive_and_keeps_the_rest(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "here", clock)
    other = await opened(remote, tmp_path / "there", clock)
    await queue.submit(jobs(9))
    await complete(queue, 3)
    clock.advance(60 * 86_400)
    await complete(queue, 4)
    await queue.archive(ALL)
    assert await other.prune(Selection(older_than=timedelta(days=30))) == 3
    assert [(month.month, month.jobs) for month in await queue.archived()] == [("2024-01", 4)]
    chosen = frozenset({"4", "6"})
    assert await queue.prune(Selection(ids=chosen)) == 2
    assert [(month.month, month.jobs) for month in await other.archived()] == [("2024-01", 2)]
    assert [job.id for job in await other.jobs(ALL)] == ["5", "7", "8", "9"]
    assert totals(await other.stats()).completed == 2
    assert await other.submit(jobs(9)) == Submitted(new=5, duplicates=4)
    assert await queue.prune(ALL) == 2
    assert await other.archived() == []
    await queue.close()
    await other.close()


async def test_a_new_generation_drops_the_history_and_workers_follow(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    host = await opened(remote, tmp_path / "host", clock)
    worker = await opened(remote, tmp_path / "worker", clock)
    await host.submit(jobs(20))
    held = await worker.claim(Want(worker=WorkerId.new("anna"), limit=5))
    before = [job async for job in each_job(worker, ALL)]
    await host.forget_history()
    assert [job async for job in each_job(worker, ALL)] == before
    assert await worker.settle([Settlement(lease, Completed()) for lease in held]) == [True] * 5
    assert totals(await host.stats()).completed == 5
    (branch,) = {name for name in _branches(remote) if name.startswith("longshore-2")}
    assert int(git(remote, "rev-list", "--count", branch)) == 2
    await host.forget_history()
    await host.forget_history()
    assert len(_branches(remote)) == 3, "the pointer, the branch in use, and the one it came from"
    # A process that was stopped for two generations finds its branch deleted, and still finds the queue.
    sleeper = await worker.claim(Want(worker=WorkerId.new("bert"), limit=100))
    assert len(sleeper) == 15
    late = await opened(remote, tmp_path / "late", clock)
    assert totals(await late.stats()) == totals(await host.stats())
    for queue in (host, worker, late):
        await queue.close()


async def test_generations_begin_while_workers_push_and_nothing_is_lost(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    host = await opened(remote, tmp_path / "host", clock)
    workers = [await opened(remote, tmp_path / f"worker{n}", clock) for n in range(2)]
    await host.submit(jobs(60))
    settled: list[str] = []

    async def work(queue: GitQueue) -> None:
        want = Want(worker=WorkerId.new(), limit=5)
        while leases := await queue.claim(want):
            answers = await queue.settle([Settlement(lease, Completed()) for lease in leases])
            settled.extend(lease.job.key for lease, accepted in zip(leases, answers, strict=True) if accepted)

    async def renew() -> None:
        for _ in range(3):
            await host.forget_history()

    await asyncio.gather(renew(), *(work(queue) for queue in workers))
    assert sorted(settled, key=int) == [f"{n}" for n in range(60)]
    assert totals(await host.stats()).completed == 60
    for queue in (host, *workers):
        await queue.close()


def _branches(remote: Path) -> set[str]:
    return set(git(remote, "for-each-ref", "--format=%(refname:short)").split())
