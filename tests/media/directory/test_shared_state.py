"""Entries of the shared state are readable files, and manual changes of them do no harm."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from longshore.clock import ManualClock
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import NewJob
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.journal import journal
from longshore.media.directory.ops import shared_state


@pytest_asyncio.fixture
async def queue(tmp_path: Path) -> AsyncIterator[DirectoryQueue]:
    queue = await DirectoryQueue.open(tmp_path, ManualClock())
    yield queue
    await queue.close()


async def write(queue: DirectoryQueue, name: str, value: Any, version: str = ABSENT) -> str:
    (new,) = await queue.swap_entries("pace", [StateEntry(name, version, value)])
    assert new is not None
    return new


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "notes").rglob("*") if path.is_file())


async def test_an_entry_is_one_readable_file(queue: DirectoryQueue, tmp_path: Path) -> None:
    version = await write(queue, "shop.test", {"rate": 1})
    await write(queue, "shop.test", {"rate": 2}, version)
    (file,) = files(tmp_path)
    assert file.parent.name.startswith("shop-test~")
    assert json.loads(file.read_text()) == {"shelf": "pace", "name": "shop.test", "value": {"rate": 2}}


async def test_nothing_is_left_of_a_deleted_entry(queue: DirectoryQueue, tmp_path: Path) -> None:
    await write(queue, "shop.test", None, await write(queue, "shop.test", 1))
    (namespace,) = (tmp_path / "notes").iterdir()
    assert list(namespace.iterdir()) == []


async def test_reading_entries_creates_no_queue(queue: DirectoryQueue, tmp_path: Path) -> None:
    assert (await queue.read_entries("pace")).entries == ()
    assert files(tmp_path) == []
    assert not (tmp_path / "longshore.json").exists()


async def test_a_damaged_or_moved_entry_is_rejected_and_can_be_written_again(
    queue: DirectoryQueue, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        await write(queue, name, 1)
    damaged, moved = files(tmp_path)
    damaged.write_text("{")
    moved.rename(moved.with_name("000000000000.json"))
    moved.parent.rename(moved.parent.with_name("c~0123456789ab"))
    (moved.parent.with_name("c~0123456789ab") / "mine.txt").write_text("mine")
    assert (await queue.read_entries("pace")).entries == ()
    assert (await queue.rejected()).count == 3
    assert await write(queue, "a", 2)


async def test_a_change_of_the_namespace_during_a_read_is_seen_completely(
    queue: DirectoryQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [await write(queue, name, 0) for name in ("a", "b")]
    other = journal.Journal(str(tmp_path))
    other.open()
    changed = shared_state.EntryFiles(
        other, "pace", [StateEntry(*each, 1) for each in zip(("a", "b"), versions, strict=True)]
    )
    reads, original = 0, shared_state._read

    def read(*arguments: Any) -> Any:
        nonlocal reads
        for note in original(*arguments):
            if not reads:
                other.transact(journal.STATE_CHANGE, changed.decide)
            reads += 1
            yield note

    monkeypatch.setattr(shared_state, "_read", read)
    assert [note.value for note in (await queue.read_entries("pace")).entries] == [1, 1]
    assert reads > 2


async def test_changes_of_jobs_do_not_repeat_a_read_of_entries(queue: DirectoryQueue, tmp_path: Path) -> None:
    await write(queue, "a", 0)
    other = journal.Journal(str(tmp_path))
    other.open()
    before = other.state_changes
    await queue.submit([NewJob(run="", kind="page", key="a", payload={})])
    other.refresh()
    assert other.state_changes == before
    await write(queue, "b", 0)
    other.refresh()
    assert other.state_changes == before + 1
