"""A table as Parquet, written in row groups, so that memory holds only one group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from longshore.errors import UsageError
from longshore.runs.export.columns import ExportTable, Type

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

GROUP_ROWS, GROUP_CHARACTERS = 10_000, 4 * 1024 * 1024
"""A group ends with the row that reaches one of these limits. They depend only on the rows, so that the same rows give
the same bytes."""


def check_parquet() -> None:
    """Raise `UsageError`, before any work is done, if the library is missing."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Parquet needs a library that is not installed ({error}). Fix: pip install '.[parquet]' where Longshore "
            "was cloned"
        ) from error


def write_parquet(file: BinaryIO, table: ExportTable, rows: Iterable[list[Any]]) -> None:
    """Write all rows to the file."""
    import pyarrow
    import pyarrow.parquet

    types = {
        Type.BOOLEAN: pyarrow.bool_(),
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
    }
    schema = pyarrow.schema([(column.name, types[column.type]) for column in table.columns])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(_arrays(group, schema), row_group_size=len(group))


def _arrays(group: list[list[Any]], schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow

    columns = [
        pyarrow.array(values, field.type) for values, field in zip(zip(*group, strict=True), schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _groups(rows: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    group: list[list[Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) if isinstance(value, str) else 8 for value in row)
        if len(group) == GROUP_ROWS or size >= GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
