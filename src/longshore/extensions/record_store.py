"""The record store: records in the database of a medium that can keep them (`longshore.media.open_records`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from longshore.errors import UsageError
from longshore.job import Job

AttemptName = tuple[str, int]
"""The id of a job and the epoch of the attempt."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record and its origin. `(run, job_kind, key, n)` is unique."""

    run: str
    job_kind: str
    key: str
    """The key of its job."""
    epoch: int
    n: int
    """Its position among the records of its job, from 0."""
    kind: str
    """The kind of the record, not of the job."""
    data: Any


class RecordCounts(msgspec.Struct, frozen=True):
    """The number of records kept, by kind, and rejected, by kind and reason."""

    kept: dict[str, int]
    rejected: dict[str, dict[str, int]]


class StoredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose records are stored. They count if the queue that is read names it in `Job.completed_by`."""

    run: str
    kind: str
    key: str
    queue: str = ""
    """The uuid of the queue in which the attempt was made; empty if an earlier version stored it."""
    job: str
    epoch: int
    revision: int = 0
    """0 for the records of the attempt itself; higher for those of a later parse of its pages, which replace them."""
    at: float = 0.0
    """When it was written, in seconds since 1970."""
    marked: bool = False
    """Whether the worker noted that its queue accepted the settlement."""


class RefusedRecordsError(UsageError):
    """The records of some attempts cannot be stored here, now or later. All other records of the call are stored."""

    def __init__(self, causes: Mapping[AttemptName, Exception]) -> None:
        first = next(iter(causes.values()))
        super().__init__(f"The records of {len(causes)} attempts cannot be stored: {first}")
        self.causes = dict(causes)
        """Why, for each attempt."""


class NewRecord(Protocol):
    """An emitted record: its kind and its JSON."""

    @property
    def kind(self) -> str: ...

    @property
    def data(self) -> msgspec.Raw: ...


class NewRecords(Protocol):
    """The records that an attempt emitted, as far as a store needs them."""

    @property
    def encoded(self) -> msgspec.Raw: ...

    @property
    def records(self) -> Sequence[NewRecord]: ...

    @property
    def rejected(self) -> Sequence[Any]: ...


JobInQueue = tuple[str, str, str, str, str]
"""The run, kind and key of a job, the uuid of its queue, and its id there."""

Counts = Callable[[StoredAttempt], bool]
"""Returns whether the records of a stored attempt count."""


class RecordStore(Protocol):
    """The records of queues. A record becomes visible when its attempt is settled, never before and never twice."""

    def put(self, job: Job, emitted: NewRecords) -> None:
        """Accept the records of a completed attempt, to be written by `flush`. `job` is the job as it was claimed."""

    def settled(self, job_id: str, epoch: int) -> None:
        """Mark an attempt as settled in the queue; `flush` writes the mark."""

    async def flush(self) -> None:
        """Return when all records and marks are stored.

        Raise `QueueUnavailableError` if they cannot be; nothing is lost, and the next call tries again. Raise
        `RefusedRecordsError` for attempts whose records can never be stored; these are dropped, the others stored.
        """

    def attempts(self, run: str) -> AsyncIterator[StoredAttempt]:
        """Yield the stored attempts of a run, of all queues."""

    async def unmarked(self) -> list[StoredAttempt]:
        """Return the attempts without a mark. While their workers live, the marks may still come."""

    def mark(self, attempt: StoredAttempt) -> None:
        """Mark a stored attempt as settled in its queue; `flush` writes the mark."""

    async def remove(self, jobs: Sequence[JobInQueue]) -> int:
        """Remove the records of all attempts at these jobs in their queues. Return of how many jobs."""

    async def revising(self) -> RecordStore:
        """Return the same store for records of a later parse, which replace the existing ones."""

    def records(self, run: str, kind: str | None, counts: Counts) -> AsyncIterator[Record]:
        """Yield the records of a run that count, of one kind or of all, ordered by kind and key of their jobs."""

    async def tally(self, run: str, counts: Counts) -> RecordCounts:
        """Return how many records of a run count, and how many were rejected for which reason."""

    async def close(self) -> None:
        """Store the rest and close the connections."""
