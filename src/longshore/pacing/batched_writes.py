"""Writes to one namespace of the shared state, in batches: entries that arrive during a call go in the next one.

A broad crawl learns about a thousand hosts a second, and each host has its own entry. Written one by one, they would
cost the queue more than the jobs do.
"""

from __future__ import annotations

import asyncio

from longshore.extensions.shared_state import SharedState, StateEntry

MAX_BATCH = 500
"""Entries in one call."""


class BatchedWrites:
    """Writes entries for many callers; each waits for the result of its own entry."""

    def __init__(self, queue: SharedState, namespace: str) -> None:
        self._queue = queue
        self._namespace = namespace
        self._pending: list[tuple[StateEntry, asyncio.Future[str | None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, entry: StateEntry) -> str | None:
        """Return the new version of `entry`, or None if another process wrote first (as `SharedState.note`)."""
        result: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pending.append((entry, result))
        if self._writing is None or self._writing.done():
            # A separate task: if the first caller is cancelled, the others still wait.
            self._writing = asyncio.create_task(self._write_all())
        return await result

    async def _write_all(self) -> None:
        while batch := self._next_batch():
            try:
                versions = await self._queue.swap_entries(self._namespace, [entry for entry, _ in batch.values()])
            except asyncio.CancelledError:
                for _, result in batch.values():
                    result.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - each caller raises it
                for _, result in batch.values():
                    if not result.done():
                        result.set_exception(error)
            else:
                for (_, result), version in zip(batch.values(), versions, strict=True):
                    if not result.done():
                        result.set_result(version)

    def _next_batch(self) -> dict[str, tuple[StateEntry, asyncio.Future[str | None]]]:
        """Return the entries to write now, by name: a name is in a call only once. Drop those of cancelled callers."""
        batch: dict[str, tuple[StateEntry, asyncio.Future[str | None]]] = {}
        pending, self._pending = self._pending, []
        for entry, result in pending:
            if result.done():
                continue
            if entry.name in batch or len(batch) == MAX_BATCH:
                self._pending.append((entry, result))
            else:
                batch[entry.name] = (entry, result)
        return batch
