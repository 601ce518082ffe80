"""Remove finished jobs, and with the last job of a run its shared entries: its pause, limits and quota."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.queue import Queue, Selection
from longshore.wrappers.differing_duplicates import DIFFERING
from longshore.wrappers.growth_limits import LEFT_OUT, LIMITS
from longshore.wrappers.job_quota import QUOTA
from longshore.wrappers.paused import PAUSED

T = TypeVar("T")
_OF_RUNS = (PAUSED, LIMITS, LEFT_OUT, QUOTA, DIFFERING)


async def prune(queue: Queue, selection: Selection) -> int:
    """Prune as `Queue.prune` does, and remove the shared entries of every run that has no job left."""
    return await with_entries(queue, selection, lambda: queue.prune(selection))


async def with_entries(queue: Queue, selection: Selection, remove: Callable[[], Awaitable[T]]) -> T:
    """Call `remove`, which prunes jobs of the selection, and then remove the shared entries of runs without a job.

    Entries of a run that had no job before stay: the run may be about to start. If the process dies in the middle,
    entries remain that the next run of that name finds.
    """
    state = find(queue, SharedState)
    if state is None:
        return await remove()
    known = [(namespace, entry) for namespace in _OF_RUNS for entry in (await state.read_entries(namespace)).entries]
    runs = {entry.name for _, entry in known if selection.run in (None, entry.name)}
    there = {run for run in runs if await queue.stats(run)}
    removed = await remove()
    gone = {run for run in there if not await queue.stats(run)}
    for namespace, entry in known:
        if entry.name in gone:
            await state.swap_entries(namespace, [StateEntry(entry.name, entry.version, None)])
    return removed
