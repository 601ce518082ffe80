"""Write the rows of an export to one file.

JSONL in the order of age is streamed. If all rows must be known first (for the order or the columns), they go to a
spool; so the queue is read only once, and the export of a running run is not a mix of two states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any

import msgspec

from longshore.errors import UsageError
from longshore.runs.export.columns import Columns
from longshore.runs.export.csv_file import write_csv
from longshore.runs.export.output_file import COMPRESSED, STDOUT, atomic_output, check_out, opened, place_name
from longshore.runs.export.parquet import check_parquet, write_parquet
from longshore.runs.export.rows import Rows
from longshore.runs.export.spool import Spool
from longshore.runs.export.sqlite_file import write_sqlite

Progress = Callable[[int], None]
"""Called now and then with the number of rows already read."""

_PROGRESS_EVERY = 1000
_encode = msgspec.json.Encoder().encode


class ExportFormat(StrEnum):
    """The format of the file."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    SQLITE = "sqlite"


class ExportOrder(StrEnum):
    """The order of the rows."""

    AGE = "age"
    """The oldest job first."""
    NAME = "name"
    """By kind and key: the same rows give the same bytes on every medium, in whatever order the jobs completed."""


class Exported(msgspec.Struct, frozen=True):
    """Size of a written export."""

    rows: int
    columns: int
    """Columns of all tables together; 0 for JSONL, which has none."""


SUFFIXES = {
    ".jsonl": ExportFormat.JSONL,
    ".ndjson": ExportFormat.JSONL,
    ".csv": ExportFormat.CSV,
    ".parquet": ExportFormat.PARQUET,
    ".sqlite": ExportFormat.SQLITE,
    ".sqlite3": ExportFormat.SQLITE,
    ".db": ExportFormat.SQLITE,
}
_WRITERS = {ExportFormat.CSV: write_csv, ExportFormat.PARQUET: write_parquet}
"""The writers of formats with one table a file."""
_BINARY = frozenset({ExportFormat.PARQUET, ExportFormat.SQLITE})
"""Formats that cannot be streamed or compressed."""


def format_of(out: str, named: str | None, *, choosing: bool = True) -> ExportFormat:
    """Return the format `named`, or the one that the file's name implies. Raise `UsageError` if they do not fit.

    If the user is not `choosing`, only the name can say the format.
    """
    path = PurePath(out)
    packed = path.suffix in COMPRESSED
    if named is not None and named not in list(ExportFormat):
        raise UsageError(f"There is no format '{named}'. The formats are: {', '.join(ExportFormat)}.")
    by_name = (
        ExportFormat.JSONL if out == STDOUT else SUFFIXES.get(PurePath(path.stem).suffix if packed else path.suffix)
    )
    if named is None and by_name is None:
        fix = f"Choose one: --format {'|'.join(ExportFormat)}." if choosing else f"End it in {', '.join(SUFFIXES)}."
        raise UsageError(f"The name {out} does not imply a format. {fix}")
    format_ = ExportFormat(named) if named is not None else by_name or ExportFormat.JSONL
    if format_ in _BINARY and out == STDOUT:
        raise UsageError(f"{format_} cannot be written to standard output. Name a file: -o results.{format_}.")
    if format_ in _BINARY and packed:
        raise UsageError(f"{out}: only jsonl and csv can be compressed by their name. Remove {path.suffix} from it.")
    return format_


async def export(rows: Rows, out: str, format_: ExportFormat, order: ExportOrder, *, progress: Progress) -> Exported:
    """Write all rows to a file, atomically, or to standard output for `-`."""
    check_out(out)
    if format_ is ExportFormat.PARQUET:
        check_parquet()
    try:
        if format_ is not ExportFormat.JSONL:
            return await _as_table(rows, out, format_, order, progress)
        if order is ExportOrder.NAME:
            return await _sorted_lines(rows, out, progress)
        return await _lines(rows, out, progress)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"The {rows.noun}s cannot be written to {place_name(out)}: {error.strerror or error}. Nothing is lost; "
            "free some space or choose another file, and give the same command again."
        ) from error


async def _lines(rows: Rows, out: str, progress: Progress) -> Exported:
    count = 0
    with opened(out) as file:
        async for row in rows.each():
            file.write(_encode(row.line) + b"\n")
            count += 1
            if count % _PROGRESS_EVERY == 0:
                progress(count)
    return Exported(count, 0)


async def _sorted_lines(rows: Rows, out: str, progress: Progress) -> Exported:
    count = 0
    with Spool(_spool_folder(out), by_order=True) as spool:
        async for row in rows.each():
            spool.add(row.order, _encode(row.line))
            count += 1
            if count % _PROGRESS_EVERY == 0:
                progress(count)
        with opened(out) as file:
            for line in spool.rows():
                file.write(line + b"\n")
    return Exported(count, 0)


async def _as_table(rows: Rows, out: str, format_: ExportFormat, order: ExportOrder, progress: Progress) -> Exported:
    count = 0
    columns = Columns(rows, table_per_kind=format_ is ExportFormat.SQLITE)
    with Spool(_spool_folder(out), by_order=order is ExportOrder.NAME) as spool:
        async for row in rows.each():
            place = row.order if order is ExportOrder.NAME else (count,)
            spool.add(place, columns.add(row, place))
            count += 1
            if count % _PROGRESS_EVERY == 0:
                progress(count)
        columns.close()
        if format_ is ExportFormat.SQLITE:
            with atomic_output(Path(out)) as part:
                write_sqlite(part, columns.tables, map(columns.values, spool.rows()))
        else:
            [table] = columns.tables
            with opened(out) as file:
                _WRITERS[format_](file, table, _values(columns, spool))
    return Exported(count, sum(len(table.columns) for table in columns.tables))


def _values(columns: Columns, spool: Spool) -> Iterator[list[Any]]:
    for packed in spool.rows():
        yield columns.values(packed)[1]


def _spool_folder(out: str) -> Path | None:
    """Return the folder for the spool: that of the output file, which must have enough space anyway."""
    return None if out == STDOUT else Path(out).absolute().parent
