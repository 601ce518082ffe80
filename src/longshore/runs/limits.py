"""Setting how far a run may grow by follow-on jobs. Workers keep to it; see `worker.limits`."""

from __future__ import annotations

from typing import cast

import msgspec

from longshore.errors import QueueUnavailableError, UsageError
from longshore.notes import UNCHANGED, KeepsNotes, Note, update_entry
from longshore.queue import Queue
from longshore.worker.limits import LIMITS, LeftOut, Limits, left_out_of, limits_of, said_in

__all__ = ["LeftOut", "Limits", "left_out", "limits_of", "set_limits"]


async def set_limits(queue: Queue, run: str, limits: Limits) -> Limits:
    """Set what is given, before the run's first job is submitted or later, and return what counts then.

    What is not given stays as it was. Workers that know the run already follow within half a minute. `UsageError`
    where the medium keeps no notes.
    """
    if not queue.traits.keeps_notes:
        raise UsageError(
            f"A {queue.traits.name} queue cannot keep the limits of a run. Leave --max-depth and --max-jobs out."
        )
    said = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}

    async def change(note: Note, _: float) -> object:
        before = said_in(note, Limits)
        new = msgspec.structs.replace(before, **said)
        return UNCHANGED if new == before else msgspec.to_builtins(new)

    busy = QueueUnavailableError(f"The limits of run {run} are being set by too many at once. Try again.")
    return said_in((await update_entry(cast("KeepsNotes", queue), LIMITS, run, change, busy)).after, Limits)


async def left_out(queue: Queue, run: str) -> LeftOut:
    """How many follow-on jobs of a run its limits have left out, as far as workers have said."""
    return await left_out_of(cast("KeepsNotes", queue), run) if queue.traits.keeps_notes else LeftOut()
