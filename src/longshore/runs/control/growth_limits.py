"""Set how far a run may grow by follow-on jobs. Workers enforce it; see `wrappers.growth_limits`."""

from __future__ import annotations

import msgspec

from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find, require
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.queue import Queue
from longshore.wrappers.growth_limits import LIMITS, GrowthLimits, LeftOut, decode_entry, left_out_of, limits_of

__all__ = ["GrowthLimits", "LeftOut", "left_out", "limits_of", "set_limits"]


async def set_limits(queue: Queue, run: str, limits: GrowthLimits) -> GrowthLimits:
    """Set the given limits, before the run's first job is submitted or later, and return all limits of the run.

    Limits that are not given stay unchanged. Workers that know the run already follow within half a minute. Raise
    `UsageError` if the medium has no shared state.
    """
    state = require(queue, SharedState, "cannot keep the limits of a run. Leave --max-depth and --max-jobs out.")
    given = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}

    async def change(note: StateEntry, _: float) -> object:
        before = decode_entry(note, GrowthLimits)
        new = msgspec.structs.replace(before, **given)
        return UNCHANGED if new == before else msgspec.to_builtins(new)

    busy = QueueUnavailableError(f"Too many processes set the limits of run {run} at the same time. Try again.")
    return decode_entry((await update_entry(state, LIMITS, run, change, busy)).after, GrowthLimits)


async def left_out(queue: Queue, run: str) -> LeftOut:
    """Return how many follow-on jobs the limits of a run have left out, as far as workers have reported."""
    state = find(queue, SharedState)
    return LeftOut() if state is None else await left_out_of(state, run)
