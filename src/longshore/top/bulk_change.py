"""Retry and cancel: narrow a user's selection, count its jobs, and change them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from longshore.job import State
from longshore.queue import Queue, Selection

COUNTED = 20_000
"""The most jobs that are counted one by one; a greater number is shown as "more than"."""
_PAGE = 500


class BulkChange(StrEnum):
    """A change of many jobs."""

    RETRY = "retry"
    CANCEL = "cancel"

    @property
    def states(self) -> frozenset[State]:
        """The states of the jobs it changes, if they were not named one by one."""
        return frozenset({State.FAILED} if self is BulkChange.RETRY else {State.PENDING, State.CLAIMED})

    @property
    def possible(self) -> frozenset[State]:
        """The states in which it can change a job that was named."""
        return self.states | {State.CANCELLED} if self is BulkChange.RETRY else self.states

    def narrowed(self, chosen: Selection) -> Selection:
        """Return the selection, limited to the states that this changes."""
        return msgspec.structs.replace(chosen, states=self.states if chosen.ids is None else self.possible)

    async def carry_out(self, queue: Queue, chosen: Selection) -> int:
        """Change the selected jobs; return how many were changed."""
        return await (queue.retry(chosen) if self is BulkChange.RETRY else queue.cancel(chosen))


class Size(msgspec.Struct, frozen=True):
    """The number of jobs of a selection."""

    jobs: int
    more: bool = False
    """Whether there are more jobs than `jobs`."""


async def size_of(queue: Queue, chosen: Selection) -> Size:
    """Return the number of jobs of a selection, counted in bounded time."""
    if chosen.ids is None and chosen.error is None and chosen.older_than is None:
        # The queue's counters answer this for any number of jobs.
        return Size(
            sum(
                getattr(count, state)
                for count in await queue.stats(chosen.run)
                if (chosen.kinds is None or count.kind in chosen.kinds)
                and (chosen.partitions is None or count.partition in chosen.partitions)
                for state in chosen.states or State
            )
        )
    number, after = 0, ""
    while number < COUNTED:
        page = await queue.jobs(chosen, after=after, limit=_PAGE)
        number += len(page)
        if len(page) < _PAGE:
            return Size(number)
        after = page[-1].id
    return Size(number, more=True)
