"""Records in PostgreSQL: the table `emitted` and the view `record`, in the schema that the URL names.

Records are written before their attempt is settled, and visible after it (`longshore.extensions.record_store`). Their
key is the job's name, its queue and its id there, and the epoch, so neither a repeated write nor a write of another
attempt changes anything. Several queues may share a schema.
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
    Counts,
    JobInQueue,
    NewRecords,
    Record,
    RecordCounts,
    RefusedRecordsError,
    StoredAttempt,
)
from longshore.job import Job
from longshore.media.postgres.connections import Connections, Row, Session, open_session, terminated_on_failure
from longshore.media.postgres.faults import DRIVER_ERRORS, fault
from longshore.media.postgres.location import DatabaseLocation, locate
from longshore.media.postgres.schema import statements

_ATTEMPTS = ("text[]", "text[]", "text[]", "text[]", "text[]", "bigint[]", "int[]", "json[]", "int[]")
_RECORDS = ("text[]", "json[]")
_MARKS = ("text[]", "text[]", "bigint[]")
_HEAD = "run, kind, key, queue, job, epoch, revision, settled, date_part('epoch', written_at) as at"
_PAGE = 1000
"""Maximum number of attempts that are read at a time."""
_DATA_PAGE = 100
"""The same with their records: one attempt may have megabytes of them."""
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
        self._marks: list[tuple[str, str, int]] = []
        self._queue = ""
        """The uuid of the queue of the last records. A process works for one queue, and marks only its own records."""
        self._flushing = asyncio.Lock()

    @classmethod
    async def open(cls, url: str, *, revision: int = 0) -> Self:
        """Connect; create the table if it does not exist. Raises at once, without retries, if that fails.

        With a `revision` above 0, records replace those of the same attempt with a lower revision.
        """
        location = locate(url)
        session = await open_session(location)
        try:
            with terminated_on_failure(session.connection):
                await _prepare(session, location)
        except DRIVER_ERRORS as error:
            raise fault(error, location) or error from error
        sink = cls(location, revision)
        sink._connections.adopt(session)
        return sink

    def put(self, job: Job, emitted: NewRecords) -> None:
        """See `RecordStore`."""
        self._rows.append((job, emitted))
        self._queue = job.queue

    def settled(self, job_id: str, epoch: int) -> None:
        """See `RecordStore`."""
        self._marks.append((self._queue, job_id, epoch))

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
        # PostgreSQL refuses a statement that writes the same attempt twice.
        latest = {
            (job.run, job.kind, job.key, job.queue, job.id, job.epoch): (job, emitted) for job, emitted in rows
        }.values()
        attempts: list[tuple[Any, ...]] = []
        records: list[tuple[Any, ...]] = []
        for job, emitted in latest:
            records += [(record.kind, bytes(record.data).decode()) for record in emitted.records]
            rejected = _encode(emitted.rejected).decode()
            name = (job.run, job.kind, job.key, job.queue, job.id)
            attempts.append((*name, job.epoch, self._revision, rejected, len(records)))
        return [*_to_columns(attempts, _ATTEMPTS), *_to_columns(records, _RECORDS)]

    async def attempts(self, run: str) -> AsyncIterator[StoredAttempt]:
        """See `RecordStore`."""
        async for row in self._pages(run, ()):
            yield _stored(row)

    async def unmarked(self) -> list[StoredAttempt]:
        """See `RecordStore`."""
        statement = f"select {_HEAD} from {self._location.quoted_schema}.emitted where not settled"  # noqa: S608 - it is quoted
        return [_stored(row) for row in await self._connections.fetch(statement, repeatable=True)]

    def mark(self, attempt: StoredAttempt) -> None:
        """See `RecordStore`."""
        self._marks.append((attempt.queue, attempt.job, attempt.epoch))

    async def remove(self, jobs: Sequence[JobInQueue]) -> int:
        """See `RecordStore`."""
        statement = (
            f"with gone as (delete from {self._location.quoted_schema}.emitted e "  # noqa: S608 - it is quoted
            "using unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) j (run, kind, key, queue, job) "
            "where e.run = j.run and e.kind = j.kind and e.key = j.key and e.queue in (j.queue, '') and e.job = j.job "
            "returning 1) select count(*) from gone"
        )
        # A name with NUL cannot be in the table, and PostgreSQL would refuse the call.
        storable = [job for job in jobs if not any("\0" in text for text in job)]
        columns = _to_columns(storable, ("text[]",) * 5)
        return int((await self._connections.fetch(statement, *columns, repeatable=True))[0][0])

    async def revising(self) -> PostgresRecords:
        """See `RecordStore`."""
        statement = f"select coalesce(max(revision), 0) + 1 from {self._location.quoted_schema}.emitted"  # noqa: S608 - it is quoted
        [(revision,)] = await self._connections.fetch(statement, repeatable=True)
        return PostgresRecords(self._location, revision)

    async def records(self, run: str, kind: str | None, counts: Counts) -> AsyncIterator[Record]:
        """See `RecordStore`."""
        async for row in self._pages(run, ("kinds", "data"), with_kind=kind):
            if counts(_stored(row)):
                for n, (found, data) in enumerate(zip(row["kinds"], row["data"], strict=True)):
                    if kind is None or found == kind:
                        name = {"run": row["run"], "job_kind": row["kind"], "key": row["key"], "epoch": row["epoch"]}
                        yield Record(**name, n=n, kind=found, data=_decode(data))

    async def tally(self, run: str, counts: Counts) -> RecordCounts:
        """See `RecordStore`."""
        kept: Counter[str] = Counter()
        rejected: dict[str, Counter[str]] = {}
        async for row in self._pages(run, ("kinds", "rejected")):
            if counts(_stored(row)):
                kept.update(row["kinds"])
                for kind, reason, number in _decode(row["rejected"]):
                    rejected.setdefault(kind, Counter())[reason] += number
        return RecordCounts(dict(kept), {kind: dict(reasons) for kind, reasons in rejected.items()})

    async def _pages(self, run: str, columns: Sequence[str], with_kind: str | None = None) -> AsyncIterator[Row]:
        """Yield the rows of a run, with the head of each attempt and these columns, ordered by kind and key."""
        statement = (
            f"select {', '.join((_HEAD, *columns))} from {self._location.quoted_schema}.emitted "  # noqa: S608 - it is quoted
            "where run = $1 and (kind, key, queue, job, epoch) > ($2, $3, $4, $5, $6) "
            "and ($7::text is null or $7 = any (kinds)) order by kind, key, queue, job, epoch limit $8"
        )
        after: tuple[Any, ...] = ("", "", "", "", -1)
        size = _PAGE if "data" not in columns else _DATA_PAGE
        while rows := await self._connections.fetch(statement, run, *after, with_kind, size, repeatable=True):
            for row in rows:
                yield row
            after = tuple(rows[-1][name] for name in ("kind", "key", "queue", "job", "epoch"))

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
    if await _is_current(session, location):
        return
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"longshore migrate {location.schema}"
        )
        if await _is_current(session, location):
            return
        await connection.execute("set local client_min_messages = warning; set local statement_timeout = 0")
        await connection.execute(f"create schema if not exists {location.quoted_schema}")
        await connection.execute(f"set local search_path = {location.quoted_schema}")
        await connection.execute(statements("records.sql"))


async def _is_current(session: Session, location: DatabaseLocation) -> bool:
    """Return whether the table exists, as this version uses it."""
    return bool(
        await session.connection.fetchval(
            "select exists (select from pg_constraint where conrelid = to_regclass($1) and contype = 'p' "
            "and array_length(conkey, 1) = 6)",
            f"{location.quoted_schema}.emitted",
        )
    )


def _stored(row: Row) -> StoredAttempt:
    return StoredAttempt(
        run=row["run"],
        kind=row["kind"],
        key=row["key"],
        queue=row["queue"],
        job=row["job"],
        epoch=row["epoch"],
        revision=row["revision"],
        at=row["at"],
        marked=row["settled"],
    )
