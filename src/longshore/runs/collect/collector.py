"""Collect the results of running runs into a folder while they complete, and archive collected jobs.

A pass reads the jobs that completed since the last pass. It starts after the oldest job that was unfinished before the
last pass, because all older jobs had been read by then; that one job is read by its id. A retry makes an old job
pending again, and so moves the start back. A retried job that completes between two passes can be missed this way; it
is found by a pass that reads everything: the first, the last, and any pass that finds fewer failed or cancelled jobs
than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from longshore.clock import Clock
from longshore.errors import PassingQueueError
from longshore.extensions.archive import Archives, Month
from longshore.extensions.submissions import being_submitted
from longshore.job import Job, State
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.collect.collected_file import CollectedFile
from longshore.runs.transfer.copy_jobs import has_left

BATCH = 1000
"""Results that are appended at once, and held in memory."""
LOOK_EVERY = timedelta(hours=1)
"""Time between two searches for jobs that are old enough to be archived."""

IDLE_FACTOR = 10
"""After a pass, wait at least this many times as long as it took, so that workers are not slowed down."""

_COMPLETED = frozenset({State.COMPLETED})
_UNFINISHED = frozenset({State.PENDING, State.CLAIMED})


class PassResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass over a run, and the counts of the run before the pass."""

    run: str
    new: int
    """Results that were appended."""
    count: Count
    being_submitted: bool = False

    @property
    def finished(self) -> bool:
        """Whether no job of the run is unfinished and none is being added."""
        return not self.count.remaining and not self.being_submitted


class Collector:
    """Collects the results of one run into a folder, pass by pass."""

    def __init__(self, queue: Queue, run: str, collected: CollectedFile) -> None:
        self._queue = queue
        self._run = run
        self._collected = collected
        self._before: list[Count] = []
        self._oldest: Job | None = None

    @property
    def file(self) -> Path:
        """The file with the results."""
        return self._collected.file

    @property
    def lines(self) -> int:
        """Number of results collected in all."""
        return self._collected.lines

    async def collect(self) -> PassResult:
        """Append every result that is not in the file yet.

        Every job that is completed at the call is in the file on return, except perhaps jobs that were retried. Of a
        finished run, all jobs are.
        """
        submitting = await being_submitted(self._queue, self._run)
        counts = await self._queue.stats(self._run)
        count = totals(counts)
        if counts == self._before and (count.remaining or submitting):
            return PassResult(run=self._run, new=0, count=count, being_submitted=submitting)
        oldest = await self._oldest_unfinished()
        new = await self._since_last(count, oldest)
        self._before, self._oldest = counts, oldest
        return PassResult(run=self._run, new=new, count=count, being_submitted=submitting)

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
    """When completed jobs are archived: those older than `age`, or all of them if there are more than `number`."""

    age: timedelta
    number: int


class Archivist:
    """Archives collected jobs, on a queue with the trait `archives`. Archived jobs can still be read."""

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
        """Completed jobs that the last archiving left, because they belong to other runs."""

    async def pack(self) -> int:
        """Archive the jobs past a bound, and drop the queue's history. Return the number of archived jobs."""
        packed = 0
        if await self._unpacked() - self._left > self._bounds.number:
            packed = await self._archive(timedelta(0))
            self._left = await self._unpacked()
        elif self._looked is None or self._clock.monotonic() - self._looked >= LOOK_EVERY.total_seconds():
            packed = await self._archive(self._bounds.age)
            self._looked = self._clock.monotonic()
        if packed:
            await self._archives.forget_history()
        return packed

    async def archived(self) -> list[Month]:
        """Return the content of the archive."""
        return await self._archives.archived()

    async def _unpacked(self) -> int:
        """Return the number of completed jobs that are not archived."""
        packed = sum(month.jobs for month in await self._archives.archived())
        return totals(await self._queue.stats()).completed - packed

    async def _archive(self, age: timedelta) -> int:
        return sum([await self._archives.archive(Selection(run=run, older_than=age)) for run in self._runs])


class CollectEvents(Protocol):
    """Callbacks that report the progress of collecting."""

    def passed(self, passed: Sequence[PassResult], packed: int) -> None:
        """Called after a pass over each run, with the number of archived jobs."""

    def unavailable(self, error: PassingQueueError) -> None:
        """Called when the queue does not answer; the next pass tries again."""


async def collect_once(collectors: Sequence[Collector], archivist: Archivist | None, events: CollectEvents) -> bool:
    """Make one pass over each run. Return whether all of them are finished."""
    passed = [await collector.collect() for collector in collectors]
    events.passed(passed, 0 if archivist is None else await archivist.pack())
    return all(each.finished for each in passed)


async def follow(
    collectors: Sequence[Collector],
    archivist: Archivist | None,
    events: CollectEvents,
    *,
    clock: Clock,
    every: timedelta,
) -> None:
    """Make passes until all runs are finished. If the queue does not answer, wait for it."""
    while True:
        began = clock.monotonic()
        rest = 0.0
        try:
            if await collect_once(collectors, archivist, events):
                return
            rest = IDLE_FACTOR * (clock.monotonic() - began)
        except PassingQueueError as error:
            # A queue that did not answer was not loaded by the pass, so no extra wait is needed.
            events.unavailable(error)
        await clock.sleep(max(every.total_seconds(), rest))
