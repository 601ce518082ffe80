"""The rate store in the shared state of a queue: all workers of the queue share one rate per host."""

from __future__ import annotations

import msgspec

from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.pacing.batched_writes import MAX_BATCH, BatchedWrites
from longshore.pacing.host_rate import HostRate
from longshore.pacing.store import StoredRate, decode_instant, decode_rate, may_forget

PACE, CLOSED, FORGOTTEN = "pace", "pace-closed", "pace-forgotten"
"""The namespaces: an entry for each host; one for each closed host, which are few; and one that records when a worker
last looked for hosts to forget."""
FORGET_SECONDS = 600.0
"""How often one of the workers does that: it has to read all entries."""
_UNTIL = "until"


class SharedRateStore:
    """A `RateStore` in the shared state of a queue."""

    per_machine = False

    def __init__(self, queue: SharedState) -> None:
        self._queue = queue
        self._writes = BatchedWrites(queue, PACE)

    async def read(self, name: str) -> StoredRate:
        found = await self._queue.read_entries(PACE, frozenset({name}))
        entry = found.get(name)
        return StoredRate(found.now, entry.version, decode_rate(entry.value))

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        return await self._writes.write(StateEntry(name, version, msgspec.to_builtins(host_rate)))

    async def close_host(self, host: str, until: float) -> None:
        async def close(entry: StateEntry, _: float) -> object:
            closed = decode_instant(entry.value, _UNTIL)
            return UNCHANGED if closed is not None and closed >= until else {_UNTIL: until}

        busy = QueueUnavailableError(f"Too many workers at once close {host}. Trying again.")
        await update_entry(self._queue, CLOSED, host, close, busy)

    async def closures(self) -> tuple[float, dict[str, float]]:
        found = await self._queue.read_entries(CLOSED)
        closed = {entry.name: decode_instant(entry.value, _UNTIL) for entry in found.entries}
        # One that cannot be read closes nothing.
        over = [
            msgspec.structs.replace(entry, value=None)
            for entry in found.entries
            if (until := closed[entry.name]) is None or until <= found.now
        ]
        if over:
            await self._queue.swap_entries(CLOSED, over)
        return found.now, {host: until for host, until in closed.items() if until is not None and until > found.now}

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        found = await self._queue.read_entries(PACE)
        return found.now, {
            entry.name: known for entry in found.entries if (known := decode_rate(entry.value)) is not None
        }

    async def forget(self) -> int:
        looked = await self._queue.read_entries(FORGOTTEN, frozenset({PACE}))
        last = looked.get(PACE)
        at = decode_instant(last.value, "at")
        if at is not None and 0 <= looked.now - at < FORGET_SECONDS:
            return 0
        if (await self._queue.swap_entries(FORGOTTEN, [StateEntry(PACE, last.version, {"at": looked.now})]))[0] is None:
            return 0  # another worker does it
        found = await self._queue.read_entries(PACE)
        old = [
            StateEntry(entry.name, entry.version, None) for entry in found.entries if may_forget(entry.value, found.now)
        ]
        deleted = 0
        for begin in range(0, len(old), MAX_BATCH):
            versions = await self._queue.swap_entries(PACE, old[begin : begin + MAX_BATCH])
            deleted += sum(version is not None for version in versions)
        return deleted

    def close(self) -> None:
        """Do nothing: the queue belongs to the caller."""
