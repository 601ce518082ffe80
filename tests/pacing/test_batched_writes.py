"""Notes that many write at the same time go in few calls, and everybody is answered for his own (F4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.memory import MemoryQueue
from longshore.pacing.batched_writes import MAX_BATCH, BatchedWrites

NAMESPACE = "pace"


class CountingQueue(MemoryQueue):
    """Keeps the sizes of calls; each takes a while, and fails as told."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.sizes: list[int] = []
        self.error: Exception | None = None
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        self.sizes.append(len(entries))
        assert len({entry.name for entry in entries}) == len(entries)
        self.entered.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return await super().swap_entries(namespace, entries)


def of(host: int, version: str = ABSENT) -> StateEntry:
    return StateEntry(f"{host}.test", version, {"host": host})


async def test_what_is_written_at_once_goes_in_one_call_and_each_gets_its_own_version() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    versions = await asyncio.gather(*(notes.write(of(host)) for host in range(100)))
    assert queue.sizes == [100]
    kept = {note.name: note.version for note in (await queue.read_entries(NAMESPACE)).entries}
    assert [kept[f"{host}.test"] for host in range(100)] == versions


async def test_what_comes_meanwhile_goes_in_the_next_call() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    queue.go_on.clear()
    first = asyncio.create_task(notes.write(of(0)))
    await queue.entered.wait()
    others = [asyncio.create_task(notes.write(of(host))) for host in range(1, MAX_BATCH + 11)]
    await asyncio.sleep(0)
    queue.go_on.set()
    assert all(await asyncio.gather(first, *others))
    assert queue.sizes == [1, MAX_BATCH, 10]


async def test_only_who_was_too_late_is_told_so() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    await queue.swap_entries(NAMESPACE, [of(1)])
    first, late, again = await asyncio.gather(notes.write(of(0)), notes.write(of(1)), notes.write(of(0)))
    assert first
    assert late is None
    assert again is None


async def test_one_name_is_never_twice_in_a_call() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    answers = await asyncio.gather(*(notes.write(of(7)) for _ in range(3)))
    assert queue.sizes == [1, 1, 1]
    assert [bool(answer) for answer in answers] == [True, False, False]


async def test_an_error_is_everybodys_and_the_next_call_is_made_all_the_same() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    queue.error = QueueUnavailableError("out of reach")
    answers = await asyncio.gather(*(notes.write(of(host)) for host in range(3)), return_exceptions=True)
    assert answers == [queue.error] * 3
    queue.error = None
    assert await notes.write(of(0))


async def test_who_is_cancelled_takes_nobody_along() -> None:
    queue = CountingQueue()
    notes = BatchedWrites(queue, NAMESPACE)
    queue.go_on.clear()
    tasks = [asyncio.create_task(notes.write(of(host))) for host in range(3)]
    await queue.entered.wait()
    tasks[0].cancel()
    waiting = [asyncio.create_task(notes.write(of(host))) for host in (5, 6)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    queue.go_on.set()
    assert all(await asyncio.gather(*tasks[1:], waiting[1]))
    for cancelled in (tasks[0], waiting[0]):
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    assert queue.sizes == [3, 1]
