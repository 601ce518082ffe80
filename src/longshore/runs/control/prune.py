"""Removing finished jobs, and with the last one of a run what was noted of it: its pause and its limits."""

from __future__ import annotations

from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.queue import Queue, Selection
from longshore.wrappers.growth_limits import LEFT_OUT, LIMITS
from longshore.wrappers.job_quota import QUOTA
from longshore.wrappers.paused import PAUSED

_OF_RUNS = (PAUSED, LIMITS, LEFT_OUT, QUOTA)


async def prune(queue: Queue, selection: Selection) -> int:
    """As `Queue.prune`. A run that is gone afterwards takes its notes with it.

    Notes of a run that had no job before stay: it may be about to begin. Whoever dies in the middle leaves notes that
    the next run of that name finds.
    """
    state = find(queue, SharedState)
    if state is None:
        return await queue.prune(selection)
    known = [(namespace, entry) for namespace in _OF_RUNS for entry in (await state.read_entries(namespace)).entries]
    runs = {entry.name for _, entry in known if selection.run in (None, entry.name)}
    there = {run for run in runs if await queue.stats(run)}
    removed = await queue.prune(selection)
    gone = {run for run in there if not await queue.stats(run)}
    for namespace, entry in known:
        if entry.name in gone:
            await state.swap_entries(namespace, [StateEntry(entry.name, entry.version, None)])
    return removed
