"""Collecting: the results of runs that go on, taken into a folder as they come; what was taken may be packed away.

A pass reads what completed since the last one. It begins behind the oldest job that was unfinished before the last
pass, for everything older had been seen by then; that one job is asked for by its id. A retry makes an old job pending
again, and so moves the beginning back. What can still be missed that way (a retried job that completed between two
looks) is found by the passes that read everything: the first, the last, and any after fewer jobs are failed or
cancelled than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.archive import Archives, Month
from longshore.job import Job, State
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.collect.collected_file import Collected
from longshore.runs.transfer.copy_jobs import has_left

BATCH = 1000
"""Results that are appended at once, and so in memory."""
LOOK_EVERY = timedelta(hours=1)
"""How often what has come of age is looked for."""

REST = 10
"""After a pass, rest at least so many times as long as it took: the queue is the workers'."""

_COMPLETED = frozenset({State.COMPLETED})
_UNFINISHED = frozenset({State.PENDING, State.CLAIMED})


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass over a run did, and how the run stood before it."""

    run: str
    new: int
    """Results that were appended."""
    count: Count

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return not self.count.remaining


class Collector:
    """Takes the results of one run into a folder, pass by pass."""

    def __init__(self, queue: Queue, run: str, collected: Collected) -> None:
        self._queue = queue
        self._run = run
        self._collected = collected
        self._before: list[Count] = []
        self._oldest: Job | None = None

    @property
    def file(self) -> Path:
        """Where the results are."""
        return self._collected.file

    @property
    def lines(self) -> int:
        """How many results were collected in all."""
        return self._collected.lines

    async def collect(self) -> Passed:
        """Append every result that is not there yet. What is completed when it is called is there when it returns,
        unless it had been retried; of a finished run everything is."""
        counts = await self._queue.stats(self._run)
        count = totals(counts)
        if counts == self._before and count.remaining:
            return Passed(run=self._run, new=0, count=count)
        oldest = await self._oldest_unfinished()
        new = await self._since_last(count, oldest)
        self._before, self._oldest = counts, oldest
        return Passed(run=self._run, new=new, count=count)

    async def _oldest_unfinished(self) -> Job | None:
        selection = Selection(run=self._run, states=_UNFINISHED)
        return next(iter(await self._queue.jobs(selection, limit=1)), None)

    async def _since_last(self, count: Count, oldest: Job | None) -> int:
        before = totals(self._before)
        retried = count.failed < before.failed or count.cancelled < before.cancelled
        known = self._oldest
        if known is None or oldest is None or retried:
            return await self._add_after("")
        alone = await self._queue.jobs(Selection(ids=frozenset({known.id}), states=_COMPLETED), limit=1)
        return self._collected.add(alone) + await self._add_after(known.id)

    async def _add_after(self, after: str) -> int:
        new = 0
        selection = Selection(run=self._run, states=_COMPLETED)
        while page := await self._queue.jobs(selection, after=after, limit=BATCH):
            new += self._collected.add([job for job in page if not has_left(job)])
            after = page[-1].id
        return new


class ArchiveBounds(msgspec.Struct, frozen=True, kw_only=True):
    """When completed jobs are packed away: past an age, or all of them past a number."""

    age: timedelta
    number: int


class Archivist:
    """Packs away what was collected, on a queue that archives. Packed jobs are still there for everyone."""

    def __init__(
        self, queue: Queue, archive: Archives, runs: tuple[str, ...], bounds: ArchiveBounds, clock: Clock
    ) -> None:
        self._queue = queue
        self._archives = archive
        self._runs = runs
        self._bounds = bounds
        self._clock = clock
        self._looked: float | None = None
        self._left = 0
        """Completed jobs of other runs, which the last packing could not touch."""

    async def pack(self) -> int:
        """Pack what is past a bound, and let go of the history. Returns how many jobs it was."""
        packed = 0
        if await self._at_hand() - self._left > self._bounds.number:
            packed = await self._archive(timedelta(0))
            self._left = await self._at_hand()
        elif self._looked is None or self._clock.monotonic() - self._looked >= LOOK_EVERY.total_seconds():
            packed = await self._archive(self._bounds.age)
            self._looked = self._clock.monotonic()
        if packed:
            await self._archives.forget_history()
        return packed

    async def archived(self) -> list[Month]:
        """What is in the archive."""
        return await self._archives.archived()

    async def _at_hand(self) -> int:
        """How many completed jobs are not packed."""
        packed = sum(month.jobs for month in await self._archives.archived())
        return totals(await self._queue.stats()).completed - packed

    async def _archive(self, age: timedelta) -> int:
        return sum([await self._archives.archive(Selection(run=run, older_than=age)) for run in self._runs])


class Told(Protocol):
    """Whoever is told how collecting goes on."""

    def passed(self, passed: Sequence[Passed], packed: int) -> None:
        """A pass over each run is done, and so many jobs were packed away."""

    def unavailable(self, error: QueueUnavailableError) -> None:
        """The queue does not answer now; the next pass tries again."""


async def collect_once(collectors: Sequence[Collector], archivist: Archivist | None, told: Told) -> bool:
    """One pass over each run. Says whether all of them are finished."""
    passed = [await collector.collect() for collector in collectors]
    told.passed(passed, 0 if archivist is None else await archivist.pack())
    return all(each.finished for each in passed)


async def follow(
    collectors: Sequence[Collector], archivist: Archivist | None, told: Told, *, clock: Clock, every: timedelta
) -> None:
    """Pass after pass, until nothing more is to come of any run. A queue that does not answer is waited for."""
    while True:
        began = clock.monotonic()
        rest = 0.0
        try:
            if await collect_once(collectors, archivist, told):
                return
            rest = REST * (clock.monotonic() - began)
        except QueueUnavailableError as error:
            # Waiting for an answer in vain was no load on anybody.
            told.unavailable(error)
        await clock.sleep(max(every.total_seconds(), rest))
