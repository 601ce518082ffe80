"""Notes are files that a person can read, and what is done to them by hand harms nobody."""

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


async def test_a_note_is_one_file_that_says_what_it_is(queue: DirectoryQueue, tmp_path: Path) -> None:
    version = await write(queue, "shop.test", {"rate": 1})
    await write(queue, "shop.test", {"rate": 2}, version)
    (file,) = files(tmp_path)
    assert file.parent.name.startswith("shop-test~")
    assert json.loads(file.read_text()) == {"shelf": "pace", "name": "shop.test", "value": {"rate": 2}}


async def test_nothing_is_left_of_a_note_that_was_taken_away(queue: DirectoryQueue, tmp_path: Path) -> None:
    await write(queue, "shop.test", None, await write(queue, "shop.test", 1))
    (shelf,) = (tmp_path / "notes").iterdir()
    assert list(shelf.iterdir()) == []


async def test_looking_makes_no_queue(queue: DirectoryQueue, tmp_path: Path) -> None:
    assert (await queue.read_entries("pace")).entries == ()
    assert files(tmp_path) == []
    assert not (tmp_path / "longshore.json").exists()


async def test_a_note_that_was_damaged_or_moved_is_set_aside_and_may_be_written_anew(
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


async def test_a_change_of_the_shelf_while_it_is_read_is_seen_whole(
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
                other.transact(journal.NOTE, changed.decide)
            reads += 1
            yield note

    monkeypatch.setattr(shared_state, "_read", read)
    assert [note.value for note in (await queue.read_entries("pace")).entries] == [1, 1]
    assert reads > 2


async def test_what_happens_to_jobs_does_not_make_who_reads_notes_look_again(
    queue: DirectoryQueue, tmp_path: Path
) -> None:
    await write(queue, "a", 0)
    other = journal.Journal(str(tmp_path))
    other.open()
    before = other.notes_written
    await queue.submit([NewJob(run="", kind="page", key="a", payload={})])
    other.look()
    assert other.notes_written == before
    await write(queue, "b", 0)
    other.look()
    assert other.notes_written == before + 1
