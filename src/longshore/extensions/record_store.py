"""The record store: records in the database of a medium that can keep them (`longshore.media.open_records`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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


class Undecided(msgspec.Struct, frozen=True):
    """An attempt without a mark that it was settled: its records count if the job is completed at this epoch."""

    run: str
    kind: str
    key: str
    job: str
    epoch: int


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
    def records(self) -> Sequence[NewRecord]: ...

    @property
    def rejected(self) -> Sequence[Any]: ...


class RecordStore(Protocol):
    """The records of one queue. A record becomes visible when its attempt is settled, never before and never twice."""

    def put(self, job: Job, emitted: NewRecords) -> None:
        """Accept the records of a completed attempt, to be written by `flush`. `job` is the job as it was claimed."""

    def settled(self, job_id: str, epoch: int) -> None:
        """Mark an attempt as settled in the queue; `flush` writes the mark."""

    async def flush(self) -> None:
        """Return when all records and marks are stored.

        Raise `QueueUnavailableError` if they cannot be; nothing is lost, and the next call tries again. Raise
        `RefusedRecordsError` for attempts whose records can never be stored; these are dropped, the others stored.
        """

    async def undecided(self) -> list[Undecided]:
        """Return the attempts without a mark. While their workers live, the marks may still come."""

    async def revising(self) -> RecordStore:
        """Return the same store for records of a later parse, which replace the existing ones."""

    def records(self, run: str, kind: str | None = None) -> AsyncIterator[Record]:
        """Yield the records of a run that count, of one kind or of all, ordered by kind and key of their jobs."""

    async def tally(self, run: str) -> RecordCounts:
        """Return how many records of a run count, and how many were rejected for which reason."""

    async def close(self) -> None:
        """Store the rest and close the connections."""
