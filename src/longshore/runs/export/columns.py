"""The fields of many JSON objects as columns of a table, with a name and a type for each column.

Rows are added one by one; the columns, their names and their types are known only after the last row. So `add` returns
the row in a packed form, and `values` unpacks it into the final columns.

    a field's values are …                    the column is
    true, false                               boolean
    whole numbers of up to 64 bits            integer
    numbers                                   real
    anything else, or several of these        text: texts as they are, all other values as JSON
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from longshore.errors import UsageError
from longshore.runs.export.rows import ExportRow, Rows

MOST_COLUMNS = 1000
"""Limit for one table. Other programs have limits too, and fields whose names are data do not belong in a header."""
_EXACT = 2**53
"""Whole numbers up to this one are exact as floating-point numbers."""
_LARGEST = 2**63
_NESTED = (dict, list)
_SHAPES: dict[type, str] = {bool: "boolean", float: "real"}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, list[int], list[Any]]).decode


class Type(StrEnum):
    """The type of a column's values; a value may also be missing."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"


class ExportColumn(msgspec.Struct, frozen=True):
    """One column of a table."""

    name: str
    type: Type


class ExportTable(msgspec.Struct, frozen=True):
    """One table."""

    name: str
    columns: tuple[ExportColumn, ...]


class _Field(msgspec.Struct):
    """A field that becomes a column."""

    group: str
    name: str
    rank: int
    """The position of its group in a row."""
    first: tuple[tuple[str | int, ...], int]
    """The first row, in the order of the export, that has the field, and the field's position there."""
    seen: set[str] = msgspec.field(default_factory=set)

    @property
    def type(self) -> Type:
        if self.seen == {"boolean"}:
            return Type.BOOLEAN
        if self.seen and self.seen <= {"integer", "long"}:
            return Type.INTEGER
        if self.seen and self.seen <= {"integer", "real"}:
            return Type.REAL
        return Type.TEXT


class Columns:
    """The columns of one or more tables, learned from their rows."""

    def __init__(self, rows: Rows, *, table_per_kind: bool) -> None:
        """With `table_per_kind`, each table name that `rows` gives becomes a table of its own."""
        self._rows = rows
        self._table_per_kind = table_per_kind
        self._table_indexes: dict[str, int] = {}
        self._field_indexes: list[dict[tuple[str, str], int]] = []
        self._fields: list[list[_Field]] = []
        self._positions: list[list[int]] = []
        """For each table: the column of each field. Filled by `close`."""
        self.tables: list[ExportTable] = []

    def add(self, row: ExportRow, order: tuple[str | int, ...]) -> bytes:
        """Learn the columns of a row, and return the row packed. `order` is its position among the written rows."""
        table = self._table_index(self._rows.table_of(row) if self._table_per_kind else self._rows.table, order)
        numbers: list[int] = []
        values: list[Any] = []
        for place, (rank, group, name, value) in enumerate(self._cells(row)):
            number = self._field_index(table, group, name, rank, (order, place))
            if value is None:
                continue
            self._fields[table][number].seen.add(_shape(value))
            numbers.append(number)
            values.append(_encode(value).decode() if type(value) in _NESTED else value)
        return _encode((table, numbers, values))

    def close(self) -> None:
        """Fill `tables` after the last row; there is at least one table."""
        if not self._table_indexes:
            self._table_index(self._rows.table, ())
        names = _Names("")
        for name, fields in zip(self._table_indexes, self._fields, strict=True):
            ordered = sorted(fields, key=lambda field: (field.rank, field.first))
            named = self._named(ordered)
            columns = tuple(ExportColumn(named[field.group, field.name], field.type) for field in ordered)
            self.tables.append(ExportTable(names.take(name, self._rows.table), columns))
            place = {(field.group, field.name): number for number, field in enumerate(ordered)}
            self._positions.append([place[field.group, field.name] for field in fields])

    def values(self, packed: bytes) -> tuple[int, list[Any]]:
        """Return the index of a row's table, and its value in each column: None, or of the column's type."""
        table, numbers, values = _decode(packed)
        columns, positions = self.tables[table].columns, self._positions[table]
        row: list[Any] = [None] * len(columns)
        for number, value in zip(numbers, values, strict=True):
            place = positions[number]
            row[place] = _cell(value, columns[place].type)
        return table, row

    def _table_index(self, name: str, order: tuple[str | int, ...]) -> int:
        if name not in self._table_indexes:
            self._table_indexes[name] = len(self._table_indexes)
            fixed = [_Field("", column, 0, (order, number)) for number, column in enumerate(self._rows.fixed)]
            self._fields.append(fixed)
            self._field_indexes.append({("", field.name): number for number, field in enumerate(fixed)})
        return self._table_indexes[name]

    def _cells(self, row: ExportRow) -> Iterator[tuple[int, str, str, Any]]:
        for name in self._rows.fixed:
            yield 0, "", name, getattr(row.line, name)
        for rank, group in enumerate(self._rows.groups(row), 1):
            for name, value in group.fields.items():
                yield rank, group.name, name, value

    def _field_index(
        self, table: int, group: str, name: str, rank: int, here: tuple[tuple[str | int, ...], int]
    ) -> int:
        """Return the index of a field that the current row has at the position `here`."""
        number = self._field_indexes[table].get((group, name))
        if number is None:
            return self._new(table, _Field(group, name, rank, here))
        field = self._fields[table][number]
        field.first = min(field.first, here)
        return number

    def _new(self, table: int, field: _Field) -> int:
        fields = self._fields[table]
        if len(fields) == MOST_COLUMNS:
            raise UsageError(
                f"The {self._rows.noun}s have more than {MOST_COLUMNS:,} different fields ('{field.name[:50]}' is one "
                "more), which is too many for a table. Use --format jsonl, which has no such limit."
            )
        fields.append(field)
        self._field_indexes[table][field.group, field.name] = len(fields) - 1
        return len(fields) - 1

    def _named(self, fields: Sequence[_Field]) -> dict[tuple[str, str], str]:
        precedence = {group: number for number, group in enumerate(("", *self._rows.precedence))}
        names = _Names(*self._rows.fixed)
        named = {("", name): name for name in self._rows.fixed}
        for field in sorted(fields, key=lambda field: precedence[field.group]):
            if field.group:
                named[field.group, field.name] = names.take(field.name, field.group)
        return named


class _Names:
    """Unique names, also for programs that do not tell `Url` from `url`."""

    def __init__(self, *taken: str) -> None:
        self._taken = {"", *taken}

    def take(self, name: str, prefix: str) -> str:
        """Return the name, or if it is taken, the name with a prefix and then a number."""
        plain = name.replace("\0", "")
        free = (each for each in _candidates(plain, prefix) if each.casefold() not in self._taken)
        # SQLite reserves table names with this prefix.
        chosen = next(each for each in free if not each.casefold().startswith("sqlite_"))
        self._taken.add(chosen.casefold())
        return chosen


def _candidates(name: str, prefix: str) -> Iterator[str]:
    yield name
    yield f"{prefix}_{name}"
    yield from (f"{prefix}_{name}_{number}" for number in itertools.count(2))


def _shape(value: Any) -> str:
    if type(value) is not int:
        return _SHAPES.get(type(value), "text")
    if -_EXACT <= value <= _EXACT:
        return "integer"
    return "long" if -_LARGEST <= value < _LARGEST else "huge"


def _cell(value: Any, type_: Type) -> Any:
    if type_ is Type.REAL:
        return float(value)
    return value if type_ is not Type.TEXT or isinstance(value, str) else _encode(value).decode()
