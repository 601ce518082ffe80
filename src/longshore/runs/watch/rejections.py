"""The files of a run that were rejected, or removed by hand: its counters do not include them."""

from __future__ import annotations

from longshore.extensions.find import find
from longshore.extensions.rejected import KeepsRejected, RejectedFiles
from longshore.queue import Queue


async def rejections_of(queue: Queue, run: str | None) -> RejectedFiles | None:
    """Return the rejected files of a run, or of the queue; None if there are none, or the medium keeps none."""
    keeps = find(queue, KeepsRejected)
    found = None if keeps is None else await keeps.rejected(run)
    return found if found is not None and found.count else None
