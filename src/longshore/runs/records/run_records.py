"""The records of a run, in a folder or in a database.

Records count if their attempt completed a job of the queue that is read: the queue is asked, because the place may have
records of other queues, and of jobs that were pruned.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from longshore.extensions.find import find
from longshore.extensions.record_store import Counts, Record, RecordCounts, RecordStore, StoredAttempt
from longshore.extensions.traces import KeepsTraces
from longshore.job import State
from longshore.media import open_records
from longshore.queue import Queue, Selection, each_page
from longshore.scrape.records import RecordReader
from longshore.scrape.records.attempt_index import AttemptIndex
from longshore.settings import Settings
from longshore.url import mask_url

_AT_ONCE = 1000
_IN_A_THREAD = 100


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


class RecordsPlace(NamedTuple):
    """The place of the records of this machine: a database, or else a folder."""

    folder: Path
    database: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> RecordsPlace:
        """Return the place that the settings name."""
        return cls(Path(settings.data_folder) / "records", settings.records_database)

    def records(
        self, queue: Queue, run: str, kinds: frozenset[str] | None = None, job: str | None = None
    ) -> RunRecords:
        """Return the records of a run; with `kinds`, only those of jobs of these kinds, with `job`, of this one job."""
        wanted = _completed(run, kinds, job)
        if self.database is not None:
            return InDatabase(queue, run, self.database, wanted)
        return InFolder(queue, run, self.folder, wanted)


class InFolder:
    """Records in segment files, written by the workers of this machine."""

    def __init__(self, queue: Queue, run: str, folder: Path, wanted: Selection | None = None) -> None:
        """`wanted` selects the jobs whose records count; by default all completed jobs of the run."""
        self.place = str(folder)
        self.elsewhere = (
            "Each machine stores the records of its own workers: copy their segments into one folder, and name its "
            "parent folder with --data-folder. If the records are in a database, set LONGSHORE_RECORDS_DATABASE."
        )
        self._queue = queue
        self._run = run
        self._folder = folder
        self._wanted = wanted or _completed(run)

    async def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RunRecords`."""
        reader = await decided_records(self._queue, self._folder, run=self._run, wanted=self._wanted)
        found = reader.records(kind)
        # In a thread: a server has others to answer meanwhile.
        while some := await asyncio.to_thread(lambda: list(islice(found, _IN_A_THREAD))):
            for record in some:
                yield record

    async def tally(self) -> RecordCounts:
        """See `RunRecords`."""
        reader = await decided_records(self._queue, self._folder, run=self._run, wanted=self._wanted)
        return await asyncio.to_thread(reader.tally)


class InDatabase:
    """Records in a database, written by the workers of any machine."""

    def __init__(self, queue: Queue, run: str, url: str, wanted: Selection | None = None) -> None:
        """`wanted` selects the jobs whose records count; by default all completed jobs of the run."""
        self.place = mask_url(url)
        self.elsewhere = "Check that its workers write there: they need LONGSHORE_RECORDS_DATABASE as well."
        self._queue = queue
        self._run = run
        self._url = url
        self._wanted = wanted or _completed(run)

    async def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RunRecords`."""
        store = await open_records(self._url)
        try:
            await mark_settled(self._queue, store)
            counts = await counted_attempts(self._queue, store, self._run, self._wanted)
            async for record in store.records(self._run, kind, counts):
                yield record
        finally:
            await store.close()

    async def tally(self) -> RecordCounts:
        """See `RunRecords`."""
        store = await open_records(self._url)
        try:
            await mark_settled(self._queue, store)
            return await store.tally(self._run, await counted_attempts(self._queue, store, self._run, self._wanted))
        finally:
            await store.close()


class AtServer:
    """Records that the queue keeps for its workers."""

    elsewhere = "The server keeps the records of all workers, so this run has none yet."

    def __init__(self, queue: KeepsTraces, run: str) -> None:
        self.place = "the server"
        self._queue = queue
        self._run = run

    async def records(self, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RunRecords`."""
        async for record in (await self._queue.traces()).records(self._run, kind):
            yield record

    async def tally(self) -> RecordCounts:
        """See `RunRecords`."""
        return await (await self._queue.traces()).tally(self._run)


def run_records(settings: Settings, queue: Queue, run: str) -> RunRecords:
    """Return the records of a run: at the server of the queue, or in the place that the settings name."""
    place = RecordsPlace.of(settings)
    if place.database is None and (keeper := find(queue, KeepsTraces)) is not None:
        return AtServer(keeper, run)
    return place.records(queue, run)


async def decided_records(
    queue: Queue, folder: Path, *, run: str | None = None, wanted: Selection | None = None
) -> RecordReader:
    """Return a reader of a folder's records that counts those of the queue's completed jobs, or of those `wanted`."""
    reader = await asyncio.to_thread(RecordReader, folder, run=run, queue_decides=True)
    if reader.segments:
        async for page in each_page(queue, wanted or _completed(run)):
            reader.count(page)
    return reader


async def counted_attempts(queue: Queue, records: RecordStore, run: str, wanted: Selection) -> Counts:
    """Return a function that says which attempts in a record database count: those that completed a `wanted` job."""
    index, attempts = AttemptIndex(), 0
    async for attempt in records.attempts(run):
        index.add(attempt, _place(attempt), marked=attempt.marked)
        attempts += 1
    found: set[int] = set()
    if attempts:
        async for page in each_page(queue, wanted):
            found.update(place for job in page if (place := index.place_of(job)) is not None)
    return lambda attempt: _place(attempt) in found


def _completed(run: str | None, kinds: frozenset[str] | None = None, job: str | None = None) -> Selection:
    ids = None if job is None else frozenset({job})
    return Selection(ids=ids, run=run, kinds=kinds, states=frozenset({State.COMPLETED}))


def _place(attempt: StoredAttempt) -> int:
    """Return a number for an attempt; a database has at most one row for it."""
    name = (attempt.run, attempt.kind, attempt.key, attempt.queue, attempt.job, str(attempt.epoch))
    return int.from_bytes(hashlib.blake2b("\0".join(name).encode(), digest_size=8).digest())


async def mark_settled(queue: Queue, records: RecordStore) -> int:
    """Mark the attempts in a record database as settled whose worker died before it could. Return how many.

    These completed a job of the queue. It may mark one of a live worker, which is harmless. The marks are for readers
    of the database; Longshore itself asks the queue.
    """
    unmarked = await records.unmarked()
    marked = 0
    for start in range(0, len(unmarked), _AT_ONCE):
        batch = unmarked[start : start + _AT_ONCE]
        selection = Selection(ids=frozenset(attempt.job for attempt in batch), states=frozenset({State.COMPLETED}))
        # Compare names too: the attempt may belong to another queue, in which the same id means another job.
        settled = {
            (job.run, job.kind, job.key, queue_id, job.id, job.epoch)
            for job in await queue.jobs(selection, limit=len(batch))
            for queue_id in (job.queue, "")
        }
        for attempt in batch:
            name = (attempt.run, attempt.kind, attempt.key, attempt.queue, attempt.job, attempt.epoch)
            if name in settled:
                records.mark(attempt)
                marked += 1
    await records.flush()
    return marked


surveyed = decided_records
"""Its former name, which the documentation showed."""
