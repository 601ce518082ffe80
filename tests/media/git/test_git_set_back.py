"""A branch that was force-pushed or restored to an older commit is refused by every machine that saw a newer one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.errors import QueueError
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.sync import branches
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Submitted, totals


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def jobs(number: int) -> list[NewJob]:
    return [NewJob(run="r", kind="page", key=f"{n}", payload={"n": n}) for n in range(number)]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def opened(remote: Path, cache: Path) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", SystemClock(), cache)


async def work_off(queue: Queue) -> int:
    done = 0
    while leases := await queue.claim(Want(worker=WorkerId.new(), limit=4)):
        done += sum(await queue.settle([Settlement(lease, Completed(lease.job.key)) for lease in leases]))
    return done


async def finished_and_set_back(remote: Path, cache: Path, branch: str = "longshore-1") -> GitQueue:
    """Return an open queue with ten finished jobs; then its branch is set to the commit before the first claim."""
    queue = await opened(remote, cache)
    await queue.submit(jobs(10))
    before = git(remote, "rev-parse", branch)
    assert await work_off(queue) == 10
    git(remote, "update-ref", f"refs/heads/{branch}", before)
    return queue


async def test_jobs_of_a_branch_that_was_set_back_are_not_done_again(remote: Path, tmp_path: Path) -> None:
    queue = await finished_and_set_back(remote, tmp_path / "cache")
    before = git(remote, "rev-parse", "longshore-1")
    for call in (queue.stats, lambda: work_off(queue), lambda: queue.submit(jobs(11)), queue.reap):
        with pytest.raises(QueueError, match="was set back: the commit"):
            await call()
    await queue.close()
    with pytest.raises(QueueError, match="was set back: the commit"):
        await opened(remote, tmp_path / "cache")
    assert git(remote, "rev-parse", "longshore-1") == before


async def test_a_machine_that_looked_long_ago_refuses_the_branch_too(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "_FEW_COMMITS", 2)
    here, there = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "there")
    await here.submit(jobs(2))
    old = git(remote, "rev-parse", "longshore-1")
    await here.submit(jobs(4))
    assert totals(await there.stats()).pending == 4
    for number in range(5, 9):
        await here.submit(jobs(number))
    assert totals(await there.stats()).pending == 8
    # A person goes on from an old commit, so that the branch is longer than it was and yet another one.
    tree = git(remote, "rev-parse", f"{old}^{{tree}}")
    for _ in range(9):
        old = git(remote, "-c", "user.name=p", "-c", "user.email=p@x", "commit-tree", tree, "-p", old, "-m", "mine")
    git(remote, "update-ref", "refs/heads/longshore-1", old)
    for queue in (here, there):
        with pytest.raises(QueueError, match="was set back"):
            await queue.stats()
        await queue.close()


async def test_the_named_command_puts_the_lost_commits_back(remote: Path, tmp_path: Path) -> None:
    queue = await finished_and_set_back(remote, tmp_path / "cache")
    with pytest.raises(QueueError, match="To put the lost commits back") as caught:
        await queue.stats()
    command = re.search(r"back: (git .*?refs/heads/longshore-1)", str(caught.value))
    assert command is not None
    subprocess.run(command[1], shell=True, check=True, capture_output=True)  # noqa: ASYNC221 - as a person does
    assert totals(await queue.stats()).completed == 10
    assert await queue.submit(jobs(11)) == Submitted(new=1, duplicates=10)
    await queue.close()


async def test_without_its_mirror_a_machine_continues_with_the_branch_as_it_is(remote: Path, tmp_path: Path) -> None:
    queue = await finished_and_set_back(remote, tmp_path / "cache")
    await queue.close()
    shutil.rmtree(RepositoryLocation(f"git+file://{remote}").mirror(tmp_path / "cache"))
    queue = await opened(remote, tmp_path / "cache")
    assert await work_off(queue) == 10
    await queue.close()


async def test_an_older_generation_is_refused(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "cache")
    await queue.submit(jobs(3))
    first, pointer = git(remote, "rev-parse", "longshore-1"), git(remote, "rev-parse", "longshore")
    assert await work_off(queue) == 3
    await queue.forget_history()
    (newer,) = re.findall(r"longshore-2-\w+", git(remote, "branch", "--list"))
    git(remote, "update-ref", "-d", f"refs/heads/{newer}")
    git(remote, "update-ref", "refs/heads/longshore-1", first)
    git(remote, "update-ref", "refs/heads/longshore", pointer)
    with pytest.raises(QueueError, match=f"'{newer}' .* was set back"):
        await work_off(queue)
    await queue.close()
