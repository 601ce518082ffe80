"""Pause and resume runs. Workers enforce it; see `wrappers.paused`."""

from __future__ import annotations

from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find, require
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.queue import Queue
from longshore.runs.open_queue import counts_of
from longshore.settings import Settings
from longshore.stored import LATEST
from longshore.wrappers.paused import EVERYTHING, PAUSED

__all__ = ["EVERYTHING", "change_pause", "pause", "paused", "resume"]


async def paused(queue: Queue) -> dict[str, float]:
    """Return the paused runs with the time they were paused, by the queue's clock; `EVERYTHING` stands for all runs."""
    state = find(queue, SharedState)
    if state is None:
        return {}
    read = await state.read_entries(PAUSED)
    return {entry.name: _since(entry, read.now) for entry in read.entries}


async def pause(queue: Queue, run: str) -> bool:
    """Pause a run, or `EVERYTHING`. Workers follow within seconds. Return False if it was paused before."""
    return await _change(queue, run, paused=True)


async def resume(queue: Queue, run: str) -> bool:
    """Resume a run, or `EVERYTHING`. Return False if it was not paused."""
    return await _change(queue, run, paused=False)


async def change_pause(queue: Queue, run: str, settings: Settings, *, pausing: bool) -> bool:
    """Pause or resume a run, or `EVERYTHING`; return False if that changed nothing.

    Raise `NotFoundError` if the queue does not have the run.
    """
    # The pause of a run that no longer exists can still be removed.
    if run != EVERYTHING and (pausing or run not in await paused(queue)):
        await counts_of(queue, run, settings)
    return await (pause if pausing else resume)(queue, run)


async def _change(queue: Queue, run: str, *, paused: bool) -> bool:
    state = require(queue, SharedState, "cannot pause runs. Stop its workers instead.")

    async def change(note: StateEntry, now: float) -> object:
        if (note.value is not None) is paused:
            return UNCHANGED
        return {"since": now} if paused else None

    busy = QueueUnavailableError(f"Too many processes pause and resume {run} at the same time. Try again.")
    return (await update_entry(state, PAUSED, run, change, busy)).written


def _since(note: StateEntry, now: float) -> float:
    since = note.value.get("since") if isinstance(note.value, dict) else None
    return float(since) if isinstance(since, int | float) and 0 <= since <= LATEST else now
