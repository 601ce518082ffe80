"""Setting how far a run may grow by follow-on jobs. Workers keep to it; see `worker.limits`."""

from __future__ import annotations

import msgspec

from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find, require
from longshore.extensions.shared_state import UNCHANGED, SharedState, StateEntry, update_entry
from longshore.queue import Queue
from longshore.wrappers.growth_limits import LIMITS, GrowthLimits, LeftOut, decode_entry, left_out_of, limits_of

__all__ = ["GrowthLimits", "LeftOut", "left_out", "limits_of", "set_limits"]


async def set_limits(queue: Queue, run: str, limits: GrowthLimits) -> GrowthLimits:
    """Set what is given, before the run's first job is submitted or later, and return what counts then.

    What is not given stays as it was. Workers that know the run already follow within half a minute. `UsageError`
    where the medium keeps no notes.
    """
    state = require(queue, SharedState, "cannot keep the limits of a run. Leave --max-depth and --max-jobs out.")
    said = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}

    async def change(note: StateEntry, _: float) -> object:
        before = decode_entry(note, GrowthLimits)
        new = msgspec.structs.replace(before, **said)
        return UNCHANGED if new == before else msgspec.to_builtins(new)

    busy = QueueUnavailableError(f"The limits of run {run} are being set by too many at once. Try again.")
    return decode_entry((await update_entry(state, LIMITS, run, change, busy)).after, GrowthLimits)


async def left_out(queue: Queue, run: str) -> LeftOut:
    """How many follow-on jobs of a run its limits have left out, as far as workers have said."""
    state = find(queue, SharedState)
    return LeftOut() if state is None else await left_out_of(state, run)
