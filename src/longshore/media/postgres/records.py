"""Records in PostgreSQL: the table `emitted` and the view `record`, in the schema that the URL names.

Records are written before their attempt is settled, and visible after it (`longshore.extensions.record_store`). Their
key is the job's name and the epoch, so neither a repeated write nor a write of an older attempt changes anything. One
schema holds the records of one queue, because job ids are unique only within a queue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import msgspec

from longshore.errors import UsageError
from longshore.extensions.record_store import (
    AttemptName,
    NewRecords,
    Record,
    RecordCounts,
    RefusedRecordsError,
    Undecided,
)
from longshore.job import Job
from longshore.media.postgres.connections import Connections, Session, open_session
from longshore.media.postgres.faults import DRIVER_ERRORS, fault
from longshore.media.postgres.location import DatabaseLocation, locate
from longshore.media.postgres.schema import statements

_ATTEMPTS = ("text[]", "text[]", "text[]", "text[]", "bigint[]", "int[]", "json[]", "int[]")
_RECORDS = ("text[]", "json[]")
_MARKS = ("text[]", "bigint[]")
_PAGE = 1000
"""Maximum number of records that are read at a time."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class PostgresRecords:
    """The records of one process, written to a database. Added records stay in memory until the next `flush`."""

    def __init__(self, location: DatabaseLocation, revision: int) -> None:
        self._location = location
        self._revision = revision
        self._connections = Connections(location)
        self._keep = location.call("keep_records", *_ATTEMPTS, *_RECORDS, *_MARKS)
        self._rows: list[tuple[Job, NewRecords]] = []
        self._marks: list[tuple[str, int]] = []
        self._flushing = asyncio.Lock()

    @classmethod
    async def open(cls, url: str, *, revision: int = 0) -> Self:
        """Connect; create the table if it does not exist. Raises at once, without retries, if that fails.

        With a `revision` above 0, records replace those of the same attempt with a lower revision.
        """
        location = locate(url)
        session = await open_session(location)
        try:
            await _prepare(session, location)
        except DRIVER_ERRORS as error:
            session.connection.terminate()
            raise fault(error, location) or error from error
        sink = cls(location, revision)
        sink._connections.adopt(session)
        return sink

    def put(self, job: Job, emitted: NewRecords) -> None:
        """See `RecordStore`."""
        self._rows.append((job, emitted))

    def settled(self, job_id: str, epoch: int) -> None:
        """See `RecordStore`."""
        self._marks.append((job_id, epoch))

    async def flush(self) -> None:
        """See `RecordStore`."""
        async with self._flushing:
            rows, marks = self._rows, self._marks
            if not rows and not marks:
                return
            self._rows, self._marks = [], []
            refused: dict[AttemptName, Exception] = {}
            parts, stored = [rows], False
            try:
                while parts:
                    part = parts[-1]
                    try:
                        await self._connections.fetch(
                            self._keep, *self._columns(part), *_to_columns(marks, _MARKS), repeatable=True
                        )
                    except UsageError as error:
                        if not part:
                            raise
                        # One attempt has a value that cannot be stored. Halve until it is alone; the others are stored.
                        middle = len(part) // 2
                        parts[-1:] = [part[middle:], part[:middle]] if middle else []
                        if not middle:
                            refused[part[0][0].id, part[0][0].epoch] = error
                    else:
                        # The marks go with every part: an attempt can only be marked after it is stored.
                        parts.pop()
                        stored = True
            except BaseException:
                self._rows[:0] = [row for part in reversed(parts) for row in part]
                self._marks[:0] = marks
                raise
            if refused:
                self._marks[:0] = [] if stored else marks
                raise RefusedRecordsError(refused)

    def _columns(self, rows: list[tuple[Job, NewRecords]]) -> list[list[Any]]:
        # PostgreSQL refuses a statement that writes the same job twice.
        latest = {(job.run, job.kind, job.key, job.id): (job, emitted) for job, emitted in rows}.values()
        attempts: list[tuple[Any, ...]] = []
        records: list[tuple[Any, ...]] = []
        for job, emitted in latest:
            records += [(record.kind, bytes(record.data).decode()) for record in emitted.records]
            rejected = _encode(emitted.rejected).decode()
            name = (job.run, job.kind, job.key, job.id)
            attempts.append((*name, job.epoch, self._revision, rejected, len(records)))
        return [*_to_columns(attempts, _ATTEMPTS), *_to_columns(records, _RECORDS)]

    async def undecided(self) -> list[Undecided]:
        """See `RecordStore`."""
        statement = f"select run, kind, key, job, epoch from {self._location.quoted_schema}.emitted where not settled"  # noqa: S608 - it is quoted
        return [Undecided(*row) for row in await self._connections.fetch(statement, repeatable=True)]

    async def revising(self) -> PostgresRecords:
        """See `RecordStore`."""
        statement = f"select coalesce(max(revision), 0) + 1 from {self._location.quoted_schema}.emitted"  # noqa: S608 - it is quoted
        [(revision,)] = await self._connections.fetch(statement, repeatable=True)
        return PostgresRecords(self._location, revision)

    async def records(self, run: str, kind: str | None = None) -> AsyncIterator[Record]:
        """See `RecordStore`."""
        # The first comparison finds the position in the index, the second the record.
        statement = (
            f"select run, job_kind, key, epoch, n, kind, data from {self._location.quoted_schema}.record "  # noqa: S608 - it is quoted
            "where run = $1 and (job_kind, key) >= ($2, $3) and (job_kind, key, n) > ($2, $3, $4) "
            "and ($5::text is null or kind = $5) order by job_kind, key, n limit $6"
        )
        after: tuple[str, str, int] = ("", "", -1)
        while rows := await self._connections.fetch(statement, run, *after, kind, _PAGE, repeatable=True):
            for run_, job_kind, key, epoch, n, kind_, data in rows:
                yield Record(run=run_, job_kind=job_kind, key=key, epoch=epoch, n=n, kind=kind_, data=_decode(data))
            after = (job_kind, key, n)

    async def tally(self, run: str) -> RecordCounts:
        """See `RecordStore`."""
        counted = f"select kind, count(*) from {self._location.quoted_schema}.record where run = $1 group by kind"  # noqa: S608 - it is quoted
        kept = {row["kind"]: row["count"] for row in await self._connections.fetch(counted, run, repeatable=True)}
        # Counted here, because the database does not read this JSON: see the table's comment.
        page = f"""
            select kind, key, job, rejected from {self._location.quoted_schema}.emitted e
            where run = $1 and settled and rejected::text <> '[]' and (kind, key, job) > ($2, $3, $4)
                and not exists (
                    select from {self._location.quoted_schema}.emitted l
                    where l.run = e.run and l.kind = e.kind and l.key = e.key and l.settled
                        and l.written_at > e.written_at
                )
            order by kind, key, job limit $5
        """  # noqa: S608 - it is quoted
        rejected: dict[str, Counter[str]] = {}
        after = ("", "", "")
        while rows := await self._connections.fetch(page, run, *after, _PAGE, repeatable=True):
            for *name, found in rows:
                for kind, reason, number in _decode(found):
                    rejected.setdefault(kind, Counter())[reason] += number
                after = tuple(name)
        return RecordCounts(kept, {kind: dict(reasons) for kind, reasons in rejected.items()})

    async def close(self) -> None:
        """See `RecordStore`."""
        try:
            await self.flush()
        finally:
            await self._connections.close()


def _to_columns(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> list[list[Any]]:
    """Return rows as columns, one for each name in `columns`."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]


async def _prepare(session: Session, location: DatabaseLocation) -> None:
    connection = session.connection
    made = await connection.fetchval("select to_regclass($1)", f"{location.quoted_schema}.emitted")
    if made is not None:
        return
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"longshore migrate {location.schema}"
        )
        await connection.execute("set local client_min_messages = warning")
        await connection.execute(f"create schema if not exists {location.quoted_schema}")
        await connection.execute(f"set local search_path = {location.quoted_schema}")
        await connection.execute(statements("records.sql"))
