"""What is exported, row by row: as a line of JSON, and as fields for a table.

Neither says anything that depends on where the queue was kept, such as a job's id: the same work makes the same rows.
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
"""Jobs that are read at once: the first time, at most, and as many as have so many bytes of JSON."""

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
        """The line of a completed job."""
        return cls(job.run, job.kind, job.key, job.payload, job.result)


class RecordLine(msgspec.Struct, frozen=True):
    """One line of a file of records. All but the last two name it."""

    run: str
    job_kind: str
    key: str
    n: int
    kind: str
    data: Any


class Group(NamedTuple):
    """Fields of a row that come from one place."""

    name: str
    """What its columns are prefixed with where another has their name already."""
    fields: Mapping[str, Any]


class ExportRow(NamedTuple):
    """One row, in both of its shapes; what is not asked for is not made."""

    order: tuple[str | int, ...]
    """Its place among the sorted: the job's kind and key; for records, the place within the job."""
    line: ResultLine | RecordLine
    job: Job | None


class Rows(Protocol):
    """The rows of one export."""

    noun: str
    """What one of them is called."""
    table: str
    """What a table of them is called where one holds all."""
    fixed: tuple[str, ...]
    """The columns that every table begins with."""
    precedence: tuple[str, ...]
    """The groups, in the order in which they have the first word on the name of a column."""

    def each(self) -> AsyncIterator[ExportRow]:
        """Every row, oldest first."""

    def part_of(self, row: ExportRow) -> str:
        """The table of a row where there are several."""

    def groups(self, row: ExportRow) -> list[Group]:
        """The fields behind the fixed ones, in the order in which they are shown."""


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

    def part_of(self, row: ExportRow) -> str:  # noqa: ARG002
        """See `Rows`: one table holds all kinds."""
        return self.table

    def groups(self, row: ExportRow) -> list[Group]:
        """See `Rows`. A result `{"success": true, "data": …, "message": …}` is what it says in `data`."""
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

    def __init__(self, run: str, kept: RunRecords, kind: str | None = None) -> None:
        """`kept` is where they are."""
        self._run = run
        self._kept = kept
        self._kind = kind

    async def each(self) -> AsyncIterator[ExportRow]:
        """See `Rows`. `NotFoundError` where there is none, for then the wrong folder or kind was named."""
        found = False
        async for record in self._kept.records(self._kind):
            found = True
            yield ExportRow((record.job_kind, record.key, record.n), _line(record), None)
        if found:
            return
        kinds = sorted({record.kind async for record in self._kept.records()} if self._kind is not None else ())
        if kinds:
            raise NotFoundError(f"Run '{self._run}' has no records of kind '{self._kind}'. It has: {', '.join(kinds)}.")
        raise NotFoundError(f"There are no records of run '{self._run}' in {self._kept.place}. {self._kept.elsewhere}")

    def part_of(self, row: ExportRow) -> str:
        """See `Rows`: each kind has fields of its own."""
        assert isinstance(row.line, RecordLine)  # noqa: S101  as above
        return row.line.kind

    def groups(self, row: ExportRow) -> list[Group]:
        """See `Rows`."""
        assert isinstance(row.line, RecordLine)  # noqa: S101  as above
        return [_fields("data", row.line.data)]


def _next_page(found: list[Job]) -> int:
    """How many jobs to read at once after these: a page is in memory whole, and a result may be a whole book."""
    some = found[:: max(len(found) // 20, 1)]
    size = sum(len(_encode(ResultLine.of(job))) for job in some) / len(some)
    return max(1, min(MOST_JOBS, int(PAGE_BYTES / size)))


def _line(record: Record) -> RecordLine:
    return RecordLine(record.run, record.job_kind, record.key, record.n, record.kind, record.data)


def _fields(name: str, value: Any) -> Group:
    """The fields of an object; anything else is the only field of its group, and has the group's name."""
    if isinstance(value, dict):
        return Group(name, value)
    return Group(name, {} if value is None else {name: value})
