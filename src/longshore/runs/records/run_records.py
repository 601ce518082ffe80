"""The records of a run, in a folder or in a database.

Records count if their attempt was accepted by the queue. Most attempts are marked as settled beside their records; for
the others, the queue is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from longshore.extensions.record_store import Record, RecordCounts, RecordStore, Undecided
from longshore.job import State
from longshore.media import open_records
from longshore.queue import Queue, Selection
from longshore.scrape.records import RecordReader
from longshore.settings import Settings
from longshore.url import mask_url

_AT_ONCE = 1000


class RunRecords(Protocol):
    """The stored records of one run."""

    place: str
    """Name of the folder or database, for messages."""
    elsewhere: str
    """Advice for a run without records here, in a sentence or two."""

    def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """Yield the records that count, of one kind or of all, each once."""

    async def tally(self) -> RecordCounts:
        """Return how many records count, and how many were rejected for which reason."""


class InFolder:
    """Records in segment files, written by the workers of this machine."""

    def __init__(self, queue: Queue, run: str, folder: Path) -> None:
        self.place = str(folder)
        self.elsewhere = (
            "Each machine stores the records of its own workers: copy their segments into one folder, and name its "
            "parent folder with --data-folder. If the records are in a database, set LONGSHORE_RECORDS_DATABASE."
        )
        self._queue = queue
        self._run = run
        self._folder = folder

    async def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RunRecords`."""
        for record in (await decided_records(self._queue, self._folder, run=self._run)).records(kind):
            yield record

    async def tally(self) -> RecordCounts:
        """See `RunRecords`."""
        survey = await decided_records(self._queue, self._folder, run=self._run)
        return await asyncio.to_thread(survey.tally)


class InDatabase:
    """Records in a database, written by the workers of any machine."""

    def __init__(self, queue: Queue, run: str, url: str) -> None:
        self.place = mask_url(url)
        self.elsewhere = "Check that its workers write there: they need LONGSHORE_RECORDS_DATABASE as well."
        self._queue = queue
        self._run = run
        self._url = url

    async def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RunRecords`."""
        store = await open_records(self._url)
        try:
            await mark_settled(self._queue, store)
            async for record in store.records(self._run, kind):
                yield record
        finally:
            await store.close()

    async def tally(self) -> RecordCounts:
        """See `RunRecords`."""
        store = await open_records(self._url)
        try:
            await mark_settled(self._queue, store)
            return await store.tally(self._run)
        finally:
            await store.close()


def run_records(settings: Settings, queue: Queue, run: str) -> RunRecords:
    """Return the records of a run, in the place that the settings name."""
    if settings.records_database is not None:
        return InDatabase(queue, run, settings.records_database)
    return InFolder(queue, run, Path(settings.data_folder) / "records")


async def decided_records(queue: Queue, folder: Path, *, run: str | None = None) -> RecordReader:
    """Return a reader of a folder's records that knows for every attempt whether its records count.

    Only for attempts that are not marked as settled beside their records, the queue is asked.
    """
    survey = await asyncio.to_thread(RecordReader, folder, run=run)
    open_ones = survey.undecided
    for start in range(0, len(open_ones), _AT_ONCE):
        survey.decide(await _settled(queue, open_ones[start : start + _AT_ONCE]))
    return survey


async def mark_settled(queue: Queue, records: RecordStore) -> int:
    """Mark the attempts in a record database as settled whose worker died before it could. Return how many.

    These are completed in the queue with the same epoch. It may mark one of a live worker, which is harmless.
    """
    open_ones = await records.undecided()
    marked = 0
    for start in range(0, len(open_ones), _AT_ONCE):
        for attempt in await _settled(queue, open_ones[start : start + _AT_ONCE]):
            records.settled(attempt.job, attempt.epoch)
            marked += 1
    await records.flush()
    return marked


async def _settled(queue: Queue, attempts: Sequence[Undecided]) -> list[Undecided]:
    ids = frozenset(attempt.job for attempt in attempts)
    selection = Selection(ids=ids, states=frozenset({State.COMPLETED}))
    completed = await queue.jobs(selection, limit=len(ids))
    # Compare names too: the records may belong to another queue, where the same id means another job.
    settled = {Undecided(job.run, job.kind, job.key, job.id, job.epoch) for job in completed}
    return [attempt for attempt in attempts if attempt in settled]


surveyed = decided_records
"""Its former name, which the documentation showed."""
