"""The first commit to a branch of an earlier format upgrades it; earlier versions refuse the current format."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.job import NewJob, State
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Queue, Selection, each_job

WORKER = WorkerId("anna", "anna/1")
ALL = Selection()
SHOP = frozenset({"shop.test"})


def git(repository: Path, *arguments: str, given: str = "") -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(
        ["git", *who, "--git-dir", str(repository), *arguments], check=True, capture_output=True, input=given, text=True
    )
    return done.stdout.strip()


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "r", "kind": "page", "key": key, "payload": {}, "host": "shop.test"} | fields)


def want(**fields: Any) -> Want:
    return Want(worker=WORKER, limit=10, lease=timedelta(seconds=60), **fields)


def make_older(remote: Path, number: int) -> None:
    """Write the branch as format 2 has it, without labels in names, or as format 1 has it, without hosts."""
    listed = git(remote, "ls-tree", "-r", "longshore-1")
    meta = git(remote, "show", "longshore-1:longshore.json").replace('"format": 3', f'"format": {number}')
    blob = git(remote, "hash-object", "-w", "--stdin", given=meta)
    lines = [line for line in listed.splitlines() if not line.endswith(("longshore.json", "README.md"))]
    lines = [re.sub(r"/[^/~]+~(?=\d{9}-)", "/", line) for line in lines]
    lines = [re.sub(r"\.h[0-9a-f]{12}", "", line) if number == 1 else line for line in lines]
    git(remote, "read-tree", "--empty")
    git(remote, "update-index", "--index-info", given="\n".join([*lines, f"100644 blob {blob}\tlongshore.json", ""]))
    commit = git(remote, "commit-tree", git(remote, "write-tree"), "-p", "longshore-1", "-m", "as it was")
    git(remote, "update-ref", "refs/heads/longshore-1", commit)


async def states(queue: Queue) -> dict[str, State]:
    return {each.key: each.state async for each in each_job(queue, ALL)}


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def test_the_first_commit_adds_hosts_to_the_names_of_format_1(remote: Path, tmp_path: Path) -> None:
    url, clock = f"git+file://{remote}", ManualClock()
    queue = await GitQueue.open(url, clock, tmp_path / "cache")
    await queue.submit([job("done"), job("failed"), job("cancelled"), job("held")])
    done, failed, cancelled, held = await queue.claim(want())
    broken = Failed(Failure("processing", "it broke", retryable=False))
    await queue.settle([Settlement(done, Completed({"n": 1})), Settlement(failed, broken)])
    await queue.cancel(Selection(ids=frozenset({cancelled.job.id})))
    await queue.submit([job("ready"), job("bare", host=""), job("late", not_before=clock.now() + 50)])
    before = await states(queue)
    await queue.close()
    make_older(remote, 1)
    assert ".h" not in git(remote, "ls-tree", "-r", "--name-only", "longshore-1")

    queue = await GitQueue.open(url, clock, tmp_path / "another")
    assert await states(queue) == before
    assert ".h" not in git(remote, "ls-tree", "-r", "--name-only", "longshore-1"), "looking changes nothing"
    clock.advance(100)
    assert [lease.job.key for lease in await queue.claim(want(without_hosts=SHOP))] == ["bare"]
    assert await queue.settle([Settlement(held, Released())]) == [True]
    assert await queue.retry(ALL) == 2
    assert await queue.claim(want(without_hosts=SHOP)) == []
    taken = [lease.job.key for lease in await queue.claim(want())]
    assert taken == ["failed", "cancelled", "held", "ready", "late"]
    assert '"format": 3' in git(remote, "show", "longshore-1:longshore.json")
    await queue.close()


async def test_a_queue_of_format_2_goes_on_and_its_jobs_get_their_names_when_they_are_claimed(
    remote: Path, tmp_path: Path
) -> None:
    url, clock = f"git+file://{remote}", ManualClock()
    queue = await GitQueue.open(url, clock, tmp_path / "cache")
    await queue.submit([job("held"), job("done"), job("ready")])
    held, done = await queue.claim(Want(worker=WORKER, limit=2, lease=timedelta(seconds=60)))
    await queue.settle([Settlement(done, Completed({"n": 1}))])
    before = await states(queue)
    await queue.close()
    make_older(remote, 2)
    assert len(re.findall(r"/\d{9}-", git(remote, "ls-tree", "-r", "--name-only", "longshore-1"))) == 3

    queue = await GitQueue.open(url, clock, tmp_path / "another")
    assert await states(queue) == before
    assert (await queue.submit([job("done"), job("held"), job("ready")])).duplicates == 3
    assert await queue.settle([Settlement(held, Released())]) == [True]
    assert [lease.job.key for lease in await queue.claim(want())] == ["held", "ready"]
    names = git(remote, "ls-tree", "-r", "--name-only", "longshore-1")
    assert "/held~000000001-" in names
    assert "/ready~000000003-" in names
    assert '"format": 3' in git(remote, "show", "longshore-1:longshore.json")
    assert "| `available_work/` |" in git(remote, "show", "longshore-1:README.md")
    assert await states(queue) == before | {"ready": State.CLAIMED}
    await queue.close()


async def test_a_branch_of_an_earlier_version_gets_a_uuid_with_the_next_change_of_a_job(
    remote: Path, tmp_path: Path
) -> None:
    url, clock = f"git+file://{remote}", ManualClock()
    queue = await GitQueue.open(url, clock, tmp_path / "cache")
    await queue.submit([job("a"), job("b")])
    await queue.close()
    lines = [line for line in git(remote, "ls-tree", "-r", "longshore-1").splitlines() if "uuid.txt" not in line]
    git(remote, "read-tree", "--empty")
    git(remote, "update-index", "--index-info", given="\n".join([*lines, ""]))
    commit = git(remote, "commit-tree", git(remote, "write-tree"), "-p", "longshore-1", "-m", "as it was")
    git(remote, "update-ref", "refs/heads/longshore-1", commit)
    old = await GitQueue.open(url, clock, tmp_path / "second cache")
    assert {found.queue for found in await old.jobs(ALL)} == {""}, "reading pushes nothing"
    (lease, _) = await old.claim(want())
    assert {found.queue for found in await old.jobs(ALL)} == {lease.job.queue}
    assert git(remote, "show", "longshore-1:uuid.txt") == lease.job.queue
    await old.close()
