"""Retry and cancel: what a person means, how many jobs that is, and doing it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from longshore.job import State
from longshore.queue import Queue, Selection

COUNTED = 20_000
"""Jobs that are counted one by one at most; beyond, it is "more than"."""
_PAGE = 500


class BulkChange(StrEnum):
    """What can be done to jobs."""

    RETRY = "retry"
    CANCEL = "cancel"

    @property
    def states(self) -> frozenset[State]:
        """Those of the jobs it is meant for, where they are many."""
        return frozenset({State.FAILED} if self is BulkChange.RETRY else {State.PENDING, State.CLAIMED})

    @property
    def possible(self) -> frozenset[State]:
        """Those it can change in a job that was named."""
        return self.states | {State.CANCELLED} if self is BulkChange.RETRY else self.states

    def narrowed(self, chosen: Selection) -> Selection:
        """The selection with the states that are meant."""
        return msgspec.structs.replace(chosen, states=self.states if chosen.ids is None else self.possible)

    async def carry_out(self, queue: Queue, chosen: Selection) -> int:
        """Do it, and say to how many."""
        return await (queue.retry(chosen) if self is BulkChange.RETRY else queue.cancel(chosen))


class Size(msgspec.Struct, frozen=True):
    """How many jobs are meant."""

    jobs: int
    more: bool = False
    """Whether there are more than these."""


async def size_of(queue: Queue, chosen: Selection) -> Size:
    """How many jobs a selection means, counted in bounded time."""
    if chosen.ids is None and chosen.error is None and chosen.older_than is None:
        # The counters know, however many there are.
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
