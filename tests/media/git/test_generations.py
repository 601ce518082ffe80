"""Generations of the branch, begun by slow and fast machines: the queue can always be found (A13)."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import ForeignQueueError
from longshore.job import NewJob
from longshore.media.git import GitQueue
from longshore.queue import Selection


def git(repository: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", *who, "--git-dir", str(repository), *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


def job(key: str) -> NewJob:
    return NewJob(run="r", kind="page", key=key, payload={})


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


async def opened(remote: Path, cache: Path) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", ManualClock(), cache)


def branches(remote: Path) -> list[str]:
    """Return the branches of the queue except the pointer, ordered by number."""
    names = git(remote, "for-each-ref", "--format=%(refname:short)", "refs/heads/longshore-*").split()
    return sorted(names, key=lambda name: int(name.split("-")[1]))


def named(remote: Path) -> list[int]:
    """Return the numbers of the branches that the pointer has named, in order."""
    log = git(remote, "log", "--reverse", "--format=%s", "longshore")
    return [int(number) for number in re.findall(r"^The queue is on longshore-(\d+)", log, re.MULTILINE)]


async def keys(queue: GitQueue) -> set[str]:
    return {found.key for found in await queue.jobs(Selection())}


async def found_by_all(remote: Path, tmp_path: Path, *others: GitQueue) -> None:
    """Assert that a new machine finds the queue, and that every machine sees what the others submit."""
    fresh = await opened(remote, tmp_path / "fresh")
    everyone = [fresh, *others]
    expected = await keys(fresh)
    for number, queue in enumerate(everyone):
        await queue.submit([job(f"after {number}")])
        expected.add(f"after {number}")
    for queue in everyone:
        await queue.submit([job("after 0")])  # contacts the remote, so that the next listing is not a second old
        assert await keys(queue) == expected
        await queue.close()


@pytest.mark.parametrize("generations", [1, 2, 3])
async def test_a_slow_generation_that_ends_after_later_ones_does_not_harm_them(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generations: int
) -> None:
    slow = await opened(remote, tmp_path / "slow")
    await slow.submit([job("first")])
    mirror = slow._sync.mirror
    fetch, passed = mirror.fetch, threading.Event()

    async def go_by() -> None:
        fast = await opened(remote, tmp_path / "fast")
        for _ in range(generations):
            await fast.forget_history()
        await fast.submit([job("late")])
        await fast.close()

    def slow_fetch(branch: str) -> str | None:
        # It has sealed its branch, and is about to update the pointer.
        if branch == "longshore" and not passed.is_set():
            passed.set()
            other = threading.Thread(target=lambda: asyncio.run(go_by()))
            other.start()
            other.join()
        return fetch(branch)

    monkeypatch.setattr(mirror, "fetch", slow_fetch)
    await slow.forget_history()
    assert passed.is_set()
    assert named(remote) == sorted(set(named(remote)))
    assert named(remote)[-1] == 2 + generations
    fresh = await opened(remote, tmp_path / "new")
    assert await keys(fresh) == {"first", "late"}
    await fresh.close()
    await found_by_all(remote, tmp_path, slow)


async def test_machines_that_begin_generations_at_once_lose_nothing(remote: Path, tmp_path: Path) -> None:
    machines = [await opened(remote, tmp_path / f"{n}") for n in range(3)]

    async def work(queue: GitQueue, name: str) -> None:
        for number in range(3):
            await queue.submit([job(f"{name}-{number}")])
            await queue.forget_history()

    await asyncio.gather(*(work(queue, f"{n}") for n, queue in enumerate(machines)))
    assert named(remote) == sorted(set(named(remote)))
    late = await opened(remote, tmp_path / "late")
    assert await keys(late) == {f"{n}-{number}" for n in range(3) for number in range(3)}
    await late.close()
    await found_by_all(remote, tmp_path, *machines)


async def lost_pointer(remote: Path, queue: GitQueue) -> None:
    """Make three generations, and a pointer to the second one, which is deleted."""
    await queue.submit([job("first")])
    await queue.forget_history()
    second = git(remote, "rev-parse", "longshore")
    for _ in range(2):
        await queue.forget_history()
    git(remote, "update-ref", "refs/heads/longshore", second)
    assert [name.split("-")[1] for name in branches(remote)] == ["3", "4"]


def abandoned_copy(remote: Path, of: str) -> str:
    """Make a generation that was begun and never used, because its process died."""
    name = f"longshore-{int(of.split('-')[1]) + 1}-abcdef"
    root = git(remote, "commit-tree", f"{of}^{{tree}}", "-m", f"Goes on from {of}")
    git(remote, "update-ref", f"refs/heads/{name}", root)
    return name


async def test_if_the_pointer_names_a_deleted_branch_the_one_others_lead_to_is_found(
    remote: Path, tmp_path: Path
) -> None:
    queue, sleeper = await opened(remote, tmp_path / "here"), await opened(remote, tmp_path / "sleeper")
    await queue.submit([job("first")])
    assert await keys(sleeper) == {"first"}
    await lost_pointer(remote, queue)
    abandoned_copy(remote, branches(remote)[-1])
    await found_by_all(remote, tmp_path, queue, sleeper)


async def test_if_no_branch_leads_to_it_the_branch_with_later_commits_is_found(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "here")
    await lost_pointer(remote, queue)
    await queue.submit([job("second")])
    left, used = branches(remote)
    git(remote, "update-ref", "-d", f"refs/heads/{left}")
    abandoned_copy(remote, used)
    await found_by_all(remote, tmp_path, queue)
    assert branches(remote)[0] == used


async def test_a_single_branch_is_found_and_the_next_generation_repairs_the_pointer(
    remote: Path, tmp_path: Path
) -> None:
    queue = await opened(remote, tmp_path / "here")
    await lost_pointer(remote, queue)
    git(remote, "update-ref", "-d", f"refs/heads/{branches(remote)[0]}")
    other = await opened(remote, tmp_path / "other")
    assert await keys(other) == {"first"}
    await other.forget_history()
    assert f"`{branches(remote)[-1]}`" in git(remote, "show", "longshore:README.md")
    await other.close()
    await found_by_all(remote, tmp_path, queue)


async def test_if_two_branches_could_hold_the_queue_it_is_an_error(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "here")
    await lost_pointer(remote, queue)
    left, used = branches(remote)
    git(remote, "update-ref", "-d", f"refs/heads/{left}")
    copy = abandoned_copy(remote, used)
    with pytest.raises(ForeignQueueError, match=f"each of these could hold the queue: {used}, {copy}"):
        await opened(remote, tmp_path / "fresh")
    for name in (used, copy):
        git(remote, "update-ref", "-d", f"refs/heads/{name}")
    with pytest.raises(ForeignQueueError, match="no other branch holds the queue"):
        await opened(remote, tmp_path / "fresh")
    await queue.close()


async def test_foreign_branches_with_names_of_generations_are_ignored_and_kept(remote: Path, tmp_path: Path) -> None:
    queue = await opened(remote, tmp_path / "here")
    await queue.submit([job("first")])
    empty = git(remote, "hash-object", "-t", "tree", "-w", "/dev/null")
    git(remote, "update-ref", "refs/heads/longshore-0", git(remote, "commit-tree", empty, "-m", "mine"))
    for _ in range(3):
        await queue.forget_history()
    assert len(branches(remote)) == 3
    assert "longshore-0" in branches(remote)
    await found_by_all(remote, tmp_path, queue)
