"""How a run ended, for those who waited for it, and which run they mean if they name none."""

from __future__ import annotations

import msgspec

from longshore.errors import NotFoundError
from longshore.queue import Count, Queue, Selection, totals_by
from longshore.runs.watch.rejections import rejections_of
from longshore.runs.watch.watcher import WaitEnd
from longshore.settings import Settings
from longshore.url import mask_url


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, or how it stood when the wait was over."""

    run_id: str
    ended: WaitEnd
    count: Count
    """The counts at the last look."""


async def end_with(queue: Queue, run: str, ended: WaitEnd) -> WaitEnd:
    """Return how a run ended if its rejected files count as well: a run that lost some did not simply complete."""
    if ended in (WaitEnd.COMPLETED, WaitEnd.CANCELLED) and await rejections_of(queue, run) is not None:
        return WaitEnd.REJECTED
    return ended


async def newest_unfinished(queue: Queue, settings: Settings) -> str:
    """Return the run, of those with unfinished jobs, whose first job was submitted last.

    Raise `NotFoundError` if every run is finished.
    """
    began: dict[str, float] = {}
    for count in totals_by(await queue.stats(), "run"):
        if count.remaining and (first := await queue.jobs(Selection(run=count.run), limit=1)):
            began[count.run] = first[0].submitted_at
    if not began:
        raise NotFoundError(f"No run in {mask_url(settings.queue)} is unfinished. Name one to see how it ended.")
    return max(began, key=lambda run: began[run])
