"""The records of a worker's attempts, from the end of an attempt until its settlement is accepted.

take(job, emitted)     an attempt completed; its records wait in memory
keep()                 the records are made durable; only now may the attempt be settled
settled(...)           the queue accepted the settlement; the records are marked, so that readers need not ask the queue
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.record_store import AttemptName, RefusedRecordsError
from longshore.extensions.traces import KeepsTraces, TraceKeeper
from longshore.job import Job
from longshore.media import open_queue, open_records
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue
from longshore.scrape.records import Emitted, RecordSink, RecordWriter, SegmentSink
from longshore.worker.kit.outbox import Outbox


class AttemptRecords:
    """Records in a folder, in a database once `open_database` was called, or with the queue after `open_keeper`."""

    def __init__(self, folder: Path, worker: str) -> None:
        """`worker` is the worker's incarnation: no two write to the same files."""
        self._folder = folder
        self._worker = worker
        self._sink: RecordSink = SegmentSink(RecordWriter(folder / "records", worker))
        self._database: str | None = None
        self._queue: str | None = None
        self._keeper: TraceKeeper | None = None
        self._outbox: Outbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unkept: dict[AttemptName, tuple[Job, Emitted]] = {}
        self._unmarked: dict[AttemptName, tuple[int, int]] = {}
        """The number of kept and of rejected records of each attempt that is not settled yet."""
        self.kept = self.rejected = 0
        """Records of attempts that were settled as completed."""
        self.refused: dict[AttemptName, Exception] = {}
        """The attempts whose records can never be stored, and why, until they are settled."""

    async def open_database(self, url: str) -> None:
        """Send records to a database. Call it before the first attempt. Raises `SettingsError` or `QueueError`."""
        self._sink = await open_records(url)
        self._database, self._loop = url, asyncio.get_running_loop()

    async def open_keeper(self, queue: Queue, url: str, outbox: Outbox) -> None:
        """Send records, unless they go to a database, and what is in the outbox to the queue, which keeps them."""
        extension = find(queue, KeepsTraces)
        assert extension is not None, "the queue keeps no traces"  # noqa: S101 - a mistake of the caller
        self._keeper, self._queue, self._outbox = await extension.traces(), url, outbox
        self._loop = asyncio.get_running_loop()
        if self._database is None:
            self._sink = self._keeper.new_records()

    async def in_this_loop(self) -> AttemptRecords:
        """Return the same records for the event loop that runs now. Call it from any thread.

        Files can be written from any thread. A connection belongs to one event loop, so another loop gets a
        connection of its own and all records not known to be durable; keeping a record twice changes nothing.
        """
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return self
        other = AttemptRecords(self._folder, self._worker)
        if self._database is not None:
            await other.open_database(self._database)
        if self._queue is not None and self._outbox is not None:
            await other.open_keeper(await open_queue(self._queue), self._queue, self._outbox)
        for job, emitted in list(self._unkept.values()):
            other.take(job, emitted)
        return other

    @property
    def unkept(self) -> frozenset[AttemptName]:
        """The attempts whose records are not known to be durable. From any thread."""
        return frozenset(list(self._unkept))

    def take(self, job: Job, emitted: Emitted) -> None:
        """Take the records of an attempt, before its settlement is handed to the settler."""
        name = job.id, job.epoch
        self._unkept[name] = job, emitted
        self._unmarked[name] = emitted.kept, sum(each.count for each in emitted.rejected)
        self._sink.put(job, emitted)

    async def keep(self) -> None:
        """Return when all records taken before this call are durable, or are in `refused`, and the outbox is sent.

        Raises `QueueError` when it cannot be written; nothing is lost by that, and the next call tries again.
        """
        if self._keeper is not None and self._outbox is not None:
            await self._outbox.send(self._keeper)
        taken = list(self._unkept)
        if not taken:
            return
        try:
            await self._sink.flush()
        except RefusedRecordsError as error:
            self.refused.update(error.causes)
        except OSError as error:
            raise QueueUnavailableError(
                f"Records cannot be written to {self._folder}: {error.strerror or error}. Make room there."
            ) from error
        for name in taken:
            self._unkept.pop(name, None)

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> None:
        """Mark the records of the attempts that the queue accepted as completed, and forget all of these attempts."""
        if not self._unmarked:
            return
        for settlement, ok in zip(settlements, accepted, strict=True):
            lease = settlement.lease
            name = lease.job.id, lease.epoch
            if name in self._unmarked:
                kept, rejected = self._unmarked.pop(name)
                self._unkept.pop(name, None)
                self.refused.pop(name, None)
                if ok and isinstance(settlement.outcome, Completed):
                    self._sink.settled(*name)
                    self.kept += kept
                    self.rejected += rejected

    async def close(self) -> None:
        """Write the marks too, and close the file or connection. Raises `OSError` or `QueueError`."""
        await self._sink.close()
