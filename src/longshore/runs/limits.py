"""Setting how far a run may grow by follow-on jobs. Workers keep to it; see `worker.limits`."""

from __future__ import annotations

from typing import cast

import msgspec

from longshore.errors import QueueUnavailableError, UsageError
from longshore.notes import KeepsNotes
from longshore.queue import Queue
from longshore.worker.limits import LIMITS, LeftOut, Limits, left_out_of, limits_of, said_in

__all__ = ["LeftOut", "Limits", "left_out", "limits_of", "set_limits"]

_TRIES = 20


async def set_limits(queue: Queue, run: str, limits: Limits) -> Limits:
    """Set what is given, before the run's first job is submitted or later, and return what counts then.

    What is not given stays as it was. Workers that know the run already follow within half a minute. `UsageError`
    where the medium keeps no notes.
    """
    if not queue.traits.keeps_notes:
        raise UsageError(
            f"A {queue.traits.name} queue cannot keep the limits of a run. Leave --max-depth and --max-jobs out."
        )
    book = cast("KeepsNotes", queue)
    for _ in range(_TRIES):
        note = (await book.notes(LIMITS, frozenset({run}))).get(run)
        before = said_in(note, Limits)
        said = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}
        new = msgspec.structs.replace(before, **said)
        if new == before:
            return new
        if (await book.note(LIMITS, [msgspec.structs.replace(note, value=msgspec.to_builtins(new))]))[0] is not None:
            return new
    raise QueueUnavailableError(f"The limits of run {run} are being set by too many at once. Try again.")


async def left_out(queue: Queue, run: str) -> LeftOut:
    """How many follow-on jobs of a run its limits have left out, as far as workers have said."""
    return await left_out_of(cast("KeepsNotes", queue), run) if queue.traits.keeps_notes else LeftOut()
