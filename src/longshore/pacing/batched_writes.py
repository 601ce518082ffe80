"""Notes of one shelf, written together: what comes while a call is under way goes in the next.

A broad crawl learns of a thousand hosts a second, and each has a note of its own. One by one they would cost the queue
more than the jobs do.
"""

from __future__ import annotations

import asyncio

from longshore.extensions.shared_state import SharedState, StateEntry

AT_ONCE = 500
"""Notes in one call."""


class BatchedWrites:
    """Writes notes for many who each wait for an answer of their own."""

    def __init__(self, queue: SharedState, shelf: str) -> None:
        self._queue = queue
        self._shelf = shelf
        self._waiting: list[tuple[StateEntry, asyncio.Future[str | None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, note: StateEntry) -> str | None:
        """As `SharedState.note` for one: its new version, or None where another was faster."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((note, answer))
        if self._writing is None or self._writing.done():
            # A task of its own: who came first may be cancelled, and the others wait on.
            self._writing = asyncio.create_task(self._write_all())
        return await answer

    async def _write_all(self) -> None:
        while batch := self._next():
            try:
                versions = await self._queue.swap_entries(self._shelf, [note for note, _ in batch.values()])
            except asyncio.CancelledError:
                for _, answer in batch.values():
                    answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - it is theirs who wait
                for _, answer in batch.values():
                    if not answer.done():
                        answer.set_exception(error)
            else:
                for (_, answer), version in zip(batch.values(), versions, strict=True):
                    if not answer.done():
                        answer.set_result(version)

    def _next(self) -> dict[str, tuple[StateEntry, asyncio.Future[str | None]]]:
        """What is written now, by name; no call has a name twice. Nobody waits any more for what is left out."""
        batch: dict[str, tuple[StateEntry, asyncio.Future[str | None]]] = {}
        waiting, self._waiting = self._waiting, []
        for note, answer in waiting:
            if answer.done():
                continue
            if note.name in batch or len(batch) == AT_ONCE:
                self._waiting.append((note, answer))
            else:
                batch[note.name] = (note, answer)
        return batch
