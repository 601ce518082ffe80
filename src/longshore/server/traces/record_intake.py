"""The intake of records: the one sink for the records of all workers over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from longshore.errors import QueueFullError, QueueUnavailableError
from longshore.extensions.record_store import AttemptName, RefusedRecordsError
from longshore.job import Job
from longshore.outcome import Completed, Settlement
from longshore.scrape.records import Emitted, RecordSink

MOST_WAITING_BYTES = 256 * 1024 * 1024
"""The size of records that wait in memory while they cannot be written. Beyond that, more are refused."""
_MOST_UNMARKED = 100_000


class RecordIntake:
    """Keeps the records of attempts. They are durable when `keep` returns.

    Records that could not be written stay in the sink, which tries again with the next call. A worker that sends them
    again, because it got no answer or an error, adds nothing.
    """

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self._one_at_a_time = asyncio.Lock()
        self._waiting: dict[AttemptName, int] = {}
        self._unmarked: dict[AttemptName, None] = {}

    async def keep(
        self, attempts: Iterable[tuple[Job, Emitted]], *, completed: bool = False
    ) -> Mapping[AttemptName, Exception]:
        """Return when the records of these attempts are durable, with those that can never be stored, and why.

        With `completed`, the queue has accepted the attempts already. Raise `QueueError` if they cannot be written now.
        """
        async with self._one_at_a_time:
            for job, emitted in attempts:
                name = job.id, job.epoch
                if name in self._waiting:
                    continue
                if sum(self._waiting.values()) > MOST_WAITING_BYTES:
                    raise QueueUnavailableError("The server cannot write records, and holds as many as it can.")
                self._sink.put(job, emitted)
                if completed:
                    self._sink.settled(*name)
                self._waiting[name] = len(emitted.encoded)
            try:
                await self._sink.flush()
            except RefusedRecordsError as error:
                refused = error.causes
            except OSError as error:
                raise QueueFullError(f"The server cannot write records: {error.strerror or error}") from error
            else:
                refused = {}
            for name in () if completed else self._waiting.keys() - refused.keys():
                if len(self._unmarked) >= _MOST_UNMARKED:
                    self._unmarked.clear()  # readers ask the queue
                self._unmarked[name] = None
            self._waiting.clear()
            return refused

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> None:
        """Mark the records of the attempts that the queue accepted as completed."""
        for settlement, ok in zip(settlements, accepted, strict=True):
            name = settlement.lease.job.id, settlement.lease.epoch
            if name in self._unmarked:
                del self._unmarked[name]
                if ok and isinstance(settlement.outcome, Completed):
                    self._sink.settled(*name)

    async def close(self) -> None:
        """Write the marks and close the file. It is opened again with the next records."""
        async with self._one_at_a_time:
            await self._sink.close()
