"""Records in a database: what a medium that can keep them promises (`longshore.media.open_records`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import msgspec

from longshore.job import Job


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and where it came from. `(run, job_kind, key, n)` names it: no two are alike."""

    run: str
    job_kind: str
    key: str
    """The job's."""
    epoch: int
    n: int
    """Its place among the records of its job, from 0."""
    kind: str
    """The record's own."""
    data: Any


class RecordCounts(msgspec.Struct, frozen=True):
    """How many records were kept, by kind, and rejected, by kind and reason."""

    kept: dict[str, int]
    rejected: dict[str, dict[str, int]]


class Undecided(msgspec.Struct, frozen=True):
    """An attempt of which only the queue knows whether it counts: it does if the job is completed at this epoch."""

    run: str
    kind: str
    key: str
    job: str
    epoch: int


class NewRecord(Protocol):
    """One record that was emitted: its kind, and itself as JSON."""

    @property
    def kind(self) -> str: ...

    @property
    def data(self) -> msgspec.Raw: ...


class NewRecords(Protocol):
    """What an attempt emitted, as far as a store looks."""

    @property
    def records(self) -> Sequence[NewRecord]: ...

    @property
    def rejected(self) -> Sequence[Any]: ...


class RecordStore(Protocol):
    """The records of one queue. Each is seen when its attempt is settled; never before, never twice."""

    def put(self, job: Job, emitted: NewRecords) -> None:
        """Take what an attempt that completed has emitted. `job` is the job as it was claimed. Waits for nothing."""

    def settled(self, job_id: str, epoch: int) -> None:
        """The queue accepted that this attempt is completed. Waits for nothing."""

    async def flush(self) -> None:
        """Return when everything put, and every mark, is kept.

        Raises `QueueUnavailableError` where it cannot be; nothing is lost by it, and the next call tries again.
        """

    async def undecided(self) -> list[Undecided]:
        """The attempts that nobody marked; of no use while their workers live."""

    async def revising(self) -> RecordStore:
        """The same store, for records that take the place of those that are there: those of a later parse."""

    def records(self, run: str, kind: str | None = None) -> AsyncIterator[Record]:
        """Every record of a run that counts, of one kind or of all, by the kind and key of their jobs."""

    async def tally(self, run: str) -> RecordCounts:
        """How many records of a run count, and how many were rejected for which reason."""

    async def close(self) -> None:
        """Keep what is left and let go of the connections."""
