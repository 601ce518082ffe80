"""Record sinks: the contract of every sink, and the sink that writes segments."""

from __future__ import annotations

import asyncio
from typing import Protocol

from longshore.job import Job
from longshore.scrape.records.emission import Emitted
from longshore.scrape.records.writer import RecordWriter


class RecordSink(Protocol):
    """The destination of the records of one process.

    The worker puts the records of an attempt, flushes, sends the settlements, and marks those that the queue accepted
    as completed. Records that were flushed but never marked count if the queue has completed their attempt.
    """

    def put(self, job: Job, emitted: Emitted) -> None:
        """Add the records of a completed attempt. `job` is the job as it was claimed. Never waits."""

    def settled(self, job_id: str, epoch: int) -> None:
        """Mark an attempt whose completion the queue accepted. Never waits."""

    async def flush(self) -> None:
        """Return when all records put before this call will survive a crash of the process and of the machine.

        Raise `OSError` or `QueueError` if they cannot be stored; they are kept in memory and the next call tries again.
        Raise `RefusedRecordsError` for attempts whose records can never be stored: these are dropped, others stored.
        """

    async def close(self) -> None:
        """Store the remaining records and marks, and close files and connections."""


class SegmentSink:
    """The sink that writes segments to a folder, in a thread beside the event loop."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.put = writer.put
        self.settled = writer.settled

    async def flush(self) -> None:
        """As `RecordSink.flush`. May be called from the event loop of any thread."""
        # Not `due` alone: another call may be writing records that are not on disk yet.
        if self._writer.due or self._writer.unwritten:
            await asyncio.to_thread(self._writer.flush)

    async def close(self) -> None:
        """As `RecordSink.close`. It blocks the event loop: it is the last call and usually has nothing to write."""
        self._writer.close()
