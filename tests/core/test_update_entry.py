"""Updating a note that others write at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import ABSENT, UNCHANGED, StateEntry, update_entry
from longshore.media.memory import MemoryQueue

NAMESPACE, NAME = "namespace", "name"
BUSY = QueueUnavailableError("too many at once")


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue(ManualClock())


async def value_of(queue: MemoryQueue) -> object:
    return (await queue.read_entries(NAMESPACE)).get(NAME).value


async def one_more(note: StateEntry, _: float) -> object:
    return (note.value or 0) + 1


async def test_the_new_value_is_written_and_both_notes_are_returned(queue: MemoryQueue) -> None:
    first = await update_entry(queue, NAMESPACE, NAME, one_more, BUSY)
    assert (first.before, first.written) == (StateEntry(NAME, ABSENT, None), True)
    second = await update_entry(queue, NAMESPACE, NAME, one_more, BUSY)
    assert second.before == first.after
    assert second.after == (await queue.read_entries(NAMESPACE)).get(NAME)
    assert second.after.value == 2


async def test_a_value_of_none_removes_the_note(queue: MemoryQueue) -> None:
    await update_entry(queue, NAMESPACE, NAME, one_more, BUSY)

    async def remove(note: StateEntry, _: float) -> object:
        return None

    update = await update_entry(queue, NAMESPACE, NAME, remove, BUSY)
    assert (update.before.value, update.after, update.written) == (1, StateEntry(NAME, ABSENT, None), True)
    assert (await queue.read_entries(NAMESPACE)).entries == ()


async def test_unchanged_writes_nothing(queue: MemoryQueue) -> None:
    await update_entry(queue, NAMESPACE, NAME, one_more, BUSY)

    async def leave(note: StateEntry, _: float) -> object:
        return UNCHANGED

    update = await update_entry(queue, NAMESPACE, NAME, leave, BUSY)
    assert not update.written
    assert update.before == update.after == (await queue.read_entries(NAMESPACE)).get(NAME)


async def test_the_change_is_told_the_time_of_the_medium(queue: MemoryQueue) -> None:
    async def when(note: StateEntry, now: float) -> object:
        return now

    update = await update_entry(queue, NAMESPACE, NAME, when, BUSY)
    assert update.after.value == (await queue.read_entries(NAMESPACE)).now


async def test_a_change_is_made_again_if_another_writer_was_faster(queue: MemoryQueue) -> None:
    seen: list[object] = []

    async def overtaken(note: StateEntry, now: float) -> object:
        seen.append(note.value)
        if len(seen) == 1:
            await queue.swap_entries(NAMESPACE, [StateEntry(NAME, note.version, 10)])
        return await one_more(note, now)

    assert (await update_entry(queue, NAMESPACE, NAME, overtaken, BUSY)).after.value == 11
    assert seen == [None, 10]


async def test_many_at_once_lose_no_change(queue: MemoryQueue) -> None:
    async def slowly(note: StateEntry, now: float) -> object:
        await asyncio.sleep(0)
        return await one_more(note, now)

    await asyncio.gather(*(update_entry(queue, NAMESPACE, NAME, slowly, BUSY) for _ in range(20)))
    assert await value_of(queue) == 20


async def test_it_gives_up_if_others_are_faster_every_time(queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def refused(namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        calls.append(namespace)
        return [None] * len(entries)

    monkeypatch.setattr(queue, "swap_entries", refused)
    with pytest.raises(QueueUnavailableError, match="too many at once"):
        await update_entry(queue, NAMESPACE, NAME, one_more, BUSY)
    assert len(calls) == 100
