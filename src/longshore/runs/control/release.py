"""Release claimed jobs from their holders: the jobs become pending again, and the interrupted attempt does not count.

Jobs held by a move between two queues stay with it: they may have arrived in the target, and would be worked on twice.
"""

from __future__ import annotations

import msgspec

from longshore.job import State
from longshore.queue import Queue, Selection
from longshore.runs.transfer.copy_jobs import MOVER

_PAGE = 500
_CLAIMED = frozenset({State.CLAIMED})


class ReleaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of jobs. Jobs that were settled meanwhile are in none of them."""

    released: int = 0
    """Pending again."""
    moving: int = 0
    """Left unchanged because a move to another queue holds them."""


async def release(queue: Queue, selection: Selection) -> ReleaseResult:
    """Release the claimed jobs of a selection. Their holders learn of it when they next renew.

    It works page by page: if the process dies in the middle, calling again does the rest.
    """
    claimed = msgspec.structs.replace(selection, states=_CLAIMED)
    released = moving = 0
    after = ""
    while page := await queue.jobs(claimed, after=after, limit=_PAGE):
        after = page[-1].id
        going = frozenset(job.id for job in page if not (job.worker or "").startswith(MOVER))
        released += await queue.release(Selection(ids=going, states=_CLAIMED))
        moving += len(page) - len(going)
    return ReleaseResult(released=released, moving=moving)
