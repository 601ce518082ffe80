"""The rows of an export: each as a line of JSON and as fields for a table.

Rows contain nothing that depends on the queue's medium, such as a job's id: the same jobs give the same rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from longshore.errors import NotFoundError
from longshore.extensions.record_store import Record
from longshore.handlers.envelope import envelope
from longshore.job import Job, State
from longshore.queue import Queue, Selection
from longshore.runs.records.run_records import RunRecords
from longshore.runs.transfer.copy_jobs import has_left

FIRST_PAGE, MOST_JOBS, PAGE_BYTES = 50, 1000, 1024 * 1024
"""Jobs read at once: for the first page, at most, and the bytes of JSON that later pages aim for."""

_encode = msgspec.json.Encoder().encode


class ResultLine(msgspec.Struct, frozen=True):
    """One line of a results file."""

    run: str
    kind: str
    key: str
    payload: dict[str, Any]
    result: Any

    @classmethod
    def of(cls, job: Job) -> ResultLine:
        """Return the line for a completed job."""
        return cls(job.run, job.kind, job.key, job.payload, job.result)


class RecordLine(msgspec.Struct, frozen=True):
    """One line of a file of records. All fields but the last two identify the record."""

    run: str
    job_kind: str
    key: str
    n: int
    kind: str
    data: Any


class Group(NamedTuple):
    """Fields of a row that come from one object."""

    name: str
    """Prefix for its columns whose names are taken by another group."""
    fields: Mapping[str, Any]


class ExportRow(NamedTuple):
    """One row of an export."""

    order: tuple[str | int, ...]
    """Its sort key: the job's kind and key, and for records the position within the job."""
    line: ResultLine | RecordLine | dict[str, Any]
    job: Job | None
    record: Record | None = None


class Rows(Protocol):
    """The rows of one export."""

    noun: str
    """The singular name of a row, for messages."""
    table: str
    """Name of the table if one table holds all rows."""
    fixed: tuple[str, ...]
    """The columns that every table begins with."""
    precedence: tuple[str, ...]
    """The groups, in the order in which they choose the names of their columns."""

    def each(self) -> AsyncIterator[ExportRow]:
        """Yield every row, oldest first."""

    def table_of(self, row: ExportRow) -> str:
        """Return the name of a row's table if there are several tables."""

    def groups(self, row: ExportRow) -> list[Group]:
        """Return the groups of fields after the fixed columns, in the order of their columns."""


class ResultRows:
    """A row for each completed job of a run."""

    noun, table = "result", "results"
    fixed: tuple[str, ...] = ("run", "kind", "key")
    precedence: tuple[str, ...] = ("result", "envelope", "payload")

    def __init__(self, queue: Queue, run: str) -> None:
        self._queue = queue
        self._run = run

    async def each(self) -> AsyncIterator[ExportRow]:
        """See `Rows`."""
        completed, after, page = Selection(run=self._run, states=frozenset({State.COMPLETED})), "", FIRST_PAGE
        while found := await self._queue.jobs(completed, after=after, limit=page):
            for job in found:
                if not has_left(job):
                    yield ExportRow((job.kind, job.key), ResultLine.of(job), job)
            after, page = found[-1].id, _next_page(found)

    def table_of(self, row: ExportRow) -> str:  # noqa: ARG002
        """See `Rows`: one table holds all kinds."""
        return self.table

    def groups(self, row: ExportRow) -> list[Group]:
        """See `Rows`. For a result `{"success": true, "data": …, "message": …}`, the fields are those of `data`."""
        assert row.job is not None  # noqa: S101  for the type checker: `each` made the row
        found = envelope(row.job)
        data, message = found["data"], found["message"]
        groups = [Group("payload", row.job.payload), _fields("result", data)]
        return [*groups, Group("envelope", {"message": message})] if message else groups


class RecordRows:
    """A row for each record that the handlers of a run emitted, of one kind or of all."""

    noun, table = "record", "records"
    fixed: tuple[str, ...] = ("run", "job_kind", "key", "n", "kind")
    precedence: tuple[str, ...] = ("data",)

    def __init__(self, run: str, records: RunRecords, kind: str | None = None) -> None:
        """`records` are the stored records of the run."""
        self._run = run
        self._records = records
        self._kind = kind

    async def each(self) -> AsyncIterator[ExportRow]:
        """See `Rows`. Raise `NotFoundError` if there is no record: the folder or kind is probably wrong."""
        found = False
        async for record in self._records.records(self._kind):
            found = True
            yield ExportRow((record.job_kind, record.key, record.n), _line(record), None)
        if found:
            return
        kinds = sorted({record.kind async for record in self._records.records()} if self._kind is not None else ())
        if kinds:
            raise NotFoundError(f"Run '{self._run}' has no records of kind '{self._kind}'. It has: {', '.join(kinds)}.")
        raise NotFoundError(
            f"There are no records of run '{self._run}' in {self._records.place}. {self._records.elsewhere}"
        )

    def table_of(self, row: ExportRow) -> str:
        """See `Rows`: each kind has fields of its own."""
        assert isinstance(row.line, RecordLine)  # noqa: S101  as above
        return row.line.kind

    def groups(self, row: ExportRow) -> list[Group]:
        """See `Rows`."""
        assert isinstance(row.line, RecordLine)  # noqa: S101  as above
        return [_fields("data", row.line.data)]


class ItemRows(RecordRows):
    """The records as their handlers emitted them: the fields first, and the job they came from after them or not."""

    noun, table = "item", "items"
    fixed: tuple[str, ...] = ()
    precedence: tuple[str, ...] = ("data", "job")

    def __init__(self, run: str, records: RunRecords, kind: str | None = None, *, bare: bool = False) -> None:
        """With `bare`, only the fields of the items themselves."""
        super().__init__(run, records, kind)
        self._bare = bare

    async def each(self) -> AsyncIterator[ExportRow]:
        """See `Rows`. None if there are no items."""
        async for record in self._records.records(self._kind):
            row = ExportRow((record.job_kind, record.key, record.n), {}, None, record)
            yield row._replace(line=_flat(self.groups(row)))

    def table_of(self, row: ExportRow) -> str:
        """See `Rows`: each kind has fields of its own."""
        assert row.record is not None  # noqa: S101  as above
        return row.record.kind

    def groups(self, row: ExportRow) -> list[Group]:
        """See `Rows`."""
        assert row.record is not None  # noqa: S101  as above
        record = row.record
        data = _fields("data", record.data)
        if self._bare:
            return [data]
        job = {"run": record.run, "job_kind": record.job_kind, "key": record.key, "n": record.n, "kind": record.kind}
        return [data, Group("job", job)]


def _flat(groups: list[Group]) -> dict[str, Any]:
    """Return the fields of all groups; a name that an earlier group has gets the name of its own group in front."""
    flat: dict[str, Any] = {}
    for group in groups:
        for name, value in group.fields.items():
            flat[f"{group.name}_{name}" if name in flat else name] = value
    return flat


def _next_page(found: list[Job]) -> int:
    """Return the size of the next page, from the average size of these jobs: a page is held in memory."""
    some = found[:: max(len(found) // 20, 1)]
    size = sum(len(_encode(ResultLine.of(job))) for job in some) / len(some)
    return max(1, min(MOST_JOBS, int(PAGE_BYTES / size)))


def _line(record: Record) -> RecordLine:
    return RecordLine(record.run, record.job_kind, record.key, record.n, record.kind, record.data)


def _fields(name: str, value: Any) -> Group:
    """Return an object's fields as a group. Any other value becomes the only field, with the group's name."""
    if isinstance(value, dict):
        return Group(name, value)
    return Group(name, {} if value is None else {name: value})
