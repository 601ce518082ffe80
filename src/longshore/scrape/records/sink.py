"""Where records go: what every sink promises, and the sink that writes segments."""

from __future__ import annotations

import asyncio
from typing import Protocol

from longshore.job import Job
from longshore.scrape.records.emission import Emitted
from longshore.scrape.records.writer import RecordWriter


class RecordSink(Protocol):
    """Records of one process, on their way to where they are kept.

    The worker puts what an attempt emitted, flushes, sends the settlements, and marks those that were accepted as
    completed. What was put and flushed, and never marked, counts if the queue says so.
    """

    def put(self, job: Job, emitted: Emitted) -> None:
        """Take what an attempt that completed has emitted. `job` is the job as it was claimed. Waits for nothing."""

    def settled(self, job_id: str, epoch: int) -> None:
        """The queue accepted that this attempt is completed. Waits for nothing."""

    async def flush(self) -> None:
        """Return when everything put will survive the death of the process and of the machine.

        Raises `OSError` or `QueueError` where it cannot be kept; nothing is lost by it, and the next call tries again.
        """

    async def close(self) -> None:
        """Keep what is left, the marks too, and let go of files and connections."""


class SegmentSink:
    """The sink that writes segments to a folder, beside the event loop."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.put = writer.put
        self.settled = writer.settled

    async def flush(self) -> None:
        """See `RecordSink`. From the event loop of any thread."""
        # Not `due` alone: what another call is writing at this moment is not on disk yet.
        if self._writer.due or self._writer.unwritten:
            await asyncio.to_thread(self._writer.flush)

    async def close(self) -> None:
        """See `RecordSink`. Not beside the event loop: it is the last that happens, and mostly nothing is left."""
        self._writer.close()
