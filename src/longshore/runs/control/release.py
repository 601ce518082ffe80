"""Release claimed jobs: they become pending again, and the interrupted attempt does not count."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.job import Job, State
from longshore.queue import Queue, Selection
from longshore.runs.control.bulk_action import BulkAction, change_pages, is_moving, page_change
from longshore.runs.control.job_filter import JobFilter


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
    claimed = msgspec.structs.replace(selection, states=frozenset({State.CLAIMED}))
    release_page, moving = page_change(BulkAction.RELEASE, queue), 0

    async def change(page: Sequence[Job]) -> int:
        nonlocal moving
        moving += sum(map(is_moving, page))
        return await release_page(page)

    done = await change_pages(queue, JobFilter(selection=claimed), change)
    return ReleaseResult(released=done.changed, moving=moving)
