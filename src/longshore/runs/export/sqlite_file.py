"""Tables as a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from longshore.runs.export.columns import ExportTable, Type
from longshore.runs.export.output_file import APPLICATION_ID

_AT_ONCE = 500
_TYPES = {Type.BOOLEAN: "INTEGER", Type.INTEGER: "INTEGER", Type.REAL: "REAL", Type.TEXT: "TEXT"}


def write_sqlite(path: Path, tables: Sequence[ExportTable], rows: Iterable[tuple[int, list[Any]]]) -> None:
    """Write the database. Each row comes with the index of its table. Raise `OSError` if the disk is full."""
    path.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            # No journal: if the process dies, the unfinished file is discarded.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute("BEGIN")
            for table in tables:
                database.execute(_create(table))
            inserts = [_insert(table) for table in tables]
            for number, values in _portions(rows):
                database.executemany(inserts[number], values)
            database.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OSError(f"{error}") from error


def _portions(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[list[Any]]]]:
    for number, same in groupby(rows, itemgetter(0)):
        while portion := [values for _, values in islice(same, _AT_ONCE)]:
            yield number, portion


def _create(table: ExportTable) -> str:
    columns = ", ".join(f"{_quoted(column.name)} {_TYPES[column.type]}" for column in table.columns)
    return f"CREATE TABLE {_quoted(table.name)} ({columns})"


def _insert(table: ExportTable) -> str:
    return f"INSERT INTO {_quoted(table.name)} VALUES ({', '.join('?' * len(table.columns))})"  # noqa: S608  quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
