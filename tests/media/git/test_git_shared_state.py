"""Entries of the shared state are readable files on the branch, and survive a new generation."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from longshore.clock import ManualClock
from longshore.errors import UsageError
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.git import GitQueue
from longshore.media.git.state.content_limits import ROOM


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest_asyncio.fixture
async def queue(remote: Path, tmp_path: Path) -> AsyncIterator[GitQueue]:
    queue = await GitQueue.open(f"git+file://{remote}", ManualClock(), tmp_path / "cache")
    yield queue
    await queue.close()


@pytest.mark.parametrize("shelf", ["schedules", "../☕"])
async def test_an_entry_is_a_readable_file(queue: GitQueue, remote: Path, shelf: str) -> None:
    (version,) = await queue.swap_entries(shelf, [StateEntry("nightly", ABSENT, {"ran": 1})])
    (path,) = re.findall(r"^notes/\S+$", git(remote, "ls-tree", "-r", "--name-only", "longshore-1"), re.MULTILINE)
    assert re.fullmatch(r"notes/\w+~[0-9a-f]{16}/nightly~[0-9a-f]{16}\.json", path)
    assert json.loads(git(remote, "show", f"longshore-1:{path}")) == {
        "shelf": shelf,
        "name": "nightly",
        "version": version,
        "value": {"ran": 1},
    }


async def test_reading_entries_creates_no_queue(queue: GitQueue, remote: Path) -> None:
    assert (await queue.read_entries("schedules")).entries == ()
    assert git(remote, "for-each-ref") == ""


async def test_entries_survive_a_new_generation(queue: GitQueue, remote: Path, tmp_path: Path) -> None:
    (version,) = await queue.swap_entries("schedules", [StateEntry("nightly", ABSENT, 1)])
    assert version
    await queue.forget_history()
    fresh = await GitQueue.open(f"git+file://{remote}", ManualClock(), tmp_path / "fresh")
    assert (await fresh.read_entries("schedules")).entries == (StateEntry("nightly", version, 1),)
    (newer,) = await fresh.swap_entries("schedules", [StateEntry("nightly", version, 2)])
    assert newer not in {None, version}
    await fresh.close()


async def test_an_entry_that_is_too_large_is_refused(queue: GitQueue) -> None:
    with pytest.raises(UsageError, match="may have"):
        await queue.swap_entries("schedules", [StateEntry("nightly", ABSENT, "x" * ROOM)])


async def test_entries_that_are_written_at_once_share_a_push(queue: GitQueue) -> None:
    before = queue.traffic.pushes
    await asyncio.gather(*(queue.swap_entries("schedules", [StateEntry(f"{n}", ABSENT, n)]) for n in range(20)))
    assert len((await queue.read_entries("schedules")).entries) == 20
    assert queue.traffic.pushes - before <= 3
