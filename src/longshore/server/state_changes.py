"""Changes of the shared state through this server: what it had read of it before is read again at once.

The server keeps what it reads of pauses, limits and schemas for some seconds, as a worker does. A worker that starts
reads them first, so what a person did before its start holds for its first claim. Over HTTP the server reads them for
all workers, and the same must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longshore.extensions.find import require
from longshore.extensions.shared_state import Entries, SharedState, StateEntry
from longshore.queue import Queue, Selection
from longshore.wrappers.queue_wrapper import QueueWrapper

_LACKING = "has no shared state."


class StateChanges(QueueWrapper):
    """A queue that calls `changed[namespace]` after each change of that namespace, and `pruned` after each prune."""

    def __init__(self, queue: Queue, changed: Mapping[str, Callable[[], None]], pruned: Callable[[], None]) -> None:
        super().__init__(queue)
        self._changed = changed
        self._pruned = pruned

    async def prune(self, selection: Selection) -> int:
        try:
            return await self._queue.prune(selection)
        finally:
            self._pruned()

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        return await require(self._queue, SharedState, _LACKING).read_entries(namespace, names)

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        try:
            return await require(self._queue, SharedState, _LACKING).swap_entries(namespace, entries)
        finally:
            # Also after an error: the change may have been made.
            if namespace in self._changed:
                self._changed[namespace]()
