"""Bulk actions: retry, cancel, release or prune all jobs that match a filter, at once or page by page.

Page by page, an action shows its progress and can be stopped between two pages: jobs that were changed stay changed,
and the same action again does the rest. Jobs that are added while it runs are changed, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import msgspec

from longshore.errors import UsageError
from longshore.job import FINISHED, Job, State
from longshore.queue import Queue, Selection
from longshore.runs.control.job_filter import JobFilter
from longshore.runs.transfer.copy_jobs import MOVER

PAGE = 500
COUNTED = 20_000
"""The most jobs that a face counts one by one before it asks; a greater number is shown as "more than"."""
_OPEN = frozenset({State.PENDING, State.CLAIMED})


class BulkAction(StrEnum):
    """A change of many jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    RELEASE = "release"
    PRUNE = "prune"

    @property
    def possible(self) -> frozenset[State]:
        """The states in which it can change a job."""
        match self:
            case BulkAction.RETRY:
                return frozenset({State.FAILED, State.CANCELLED})
            case BulkAction.CANCEL:
                return _OPEN
            case BulkAction.RELEASE:
                return frozenset({State.CLAIMED})
            case BulkAction.PRUNE:
                return FINISHED

    @property
    def default(self) -> frozenset[State]:
        """The states of the jobs it changes if neither a state nor a job is named."""
        return frozenset({State.FAILED}) if self is BulkAction.RETRY else self.possible

    @property
    def made(self) -> str:
        """The state of the jobs afterwards, for people, as in "3 jobs are cancelled"."""
        made = {BulkAction.CANCEL: "cancelled", BulkAction.PRUNE: "removed"}
        return made.get(self, "pending again")

    def narrowed(self, chosen: Selection) -> Selection:
        """Return the selection with the states that this can change. Raise `UsageError` if it names other states."""
        possible = self.possible
        if chosen.states is not None and not chosen.states <= possible:
            wrong, right = ", ".join(sorted(chosen.states - possible)), " or ".join(sorted(possible))
            raise UsageError(f"Jobs that are {wrong} cannot be changed by {self}; those that are {right} can.")
        states = chosen.states or (possible if chosen.ids else self.default)
        return msgspec.structs.replace(chosen, states=states)

    async def call(self, queue: Queue, chosen: Selection) -> int:
        """Call the method of the queue for all selected jobs at once. Return how many were changed."""
        match self:
            case BulkAction.RETRY:
                return await queue.retry(chosen)
            case BulkAction.CANCEL:
                return await queue.cancel(chosen)
            case BulkAction.RELEASE:
                return await queue.release(chosen)
            case BulkAction.PRUNE:
                return await queue.prune(chosen)


class Size(msgspec.Struct, frozen=True):
    """The number of jobs that match."""

    jobs: int
    more: bool = False
    """Whether there are more jobs than `jobs`."""


async def size_of(queue: Queue, wanted: JobFilter, *, most: int | None = None) -> Size:
    """Return how many jobs match. Counters answer if they can; else jobs are read, about `most` of them if given."""
    chosen = wanted.selection
    if wanted.counters_suffice:
        return Size(
            sum(
                getattr(count, state)
                for count in await queue.stats(chosen.run)
                if (chosen.kinds is None or count.kind in chosen.kinds)
                and (chosen.partitions is None or count.partition in chosen.partitions)
                for state in chosen.states or State
            )
        )
    number, read, after = 0, 0, ""
    while most is None or read < most:
        page = await queue.jobs(chosen, after=after, limit=PAGE)
        number += sum(map(wanted.accepts, page))
        read += len(page)
        if len(page) < PAGE:
            return Size(number)
        after = page[-1].id
    return Size(number, more=True)


class BulkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a bulk action is."""

    matched: int = 0
    """The jobs that matched, of those that were read already."""
    changed: int = 0
    """The jobs of them that were changed. Others were settled meanwhile, or are being moved to another queue."""
    finished: bool = False
    """Whether every page was read; false if the action was stopped before."""


PageChange = Callable[[Sequence[Job]], Awaitable[int]]
"""Changes the jobs of a page; returns how many."""
Note = Callable[[BulkProgress], Awaitable[None]]
"""Is told the progress after each page."""


async def change_pages(
    queue: Queue, wanted: JobFilter, change: PageChange, note: Note | None = None, stop: asyncio.Event | None = None
) -> BulkProgress:
    """Change all jobs that match, page by page, oldest first. `stop` ends it after the page under way."""
    done, after = BulkProgress(), ""
    while stop is None or not stop.is_set():
        page = await queue.jobs(wanted.selection, after=after, limit=PAGE)
        matching = [job for job in page if wanted.accepts(job)]
        if matching:
            changed = await change(matching)
            done = BulkProgress(matched=done.matched + len(matching), changed=done.changed + changed)
        if note is not None:
            await note(done)
        if len(page) < PAGE:
            return msgspec.structs.replace(done, finished=True)
        after = page[-1].id
    return done


def is_moving(job: Job) -> bool:
    """Return whether a move between two queues holds a claimed job."""
    return (job.worker or "").startswith(MOVER)


def page_change(action: BulkAction, queue: Queue) -> PageChange:
    """Return the function that carries out the action on the jobs of a page.

    Jobs held by a move between two queues are not released: they may have arrived in the target, and would be worked on
    twice.
    """

    async def change(page: Sequence[Job]) -> int:
        jobs = page
        if action is BulkAction.RELEASE:
            jobs = [job for job in page if not is_moving(job)]
        return await action.call(queue, Selection(ids=frozenset(job.id for job in jobs), states=action.possible))

    return change
