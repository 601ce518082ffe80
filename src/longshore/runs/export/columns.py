"""Columns: the fields of many JSON objects as the columns of a table, with a name and a type for each.

Rows are noted one by one; only when all are known is it clear which columns there are, what they are called and what
they hold. So `note` packs a row small, and `values` unpacks it into the columns as they have become.

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
"""In one table. A program that opens it has limits too, and fields whose names are data belong into no header."""
_EXACT = 2**53
"""Whole numbers up to here are the same as a floating-point number."""
_LARGEST = 2**63
_NESTED = (dict, list)
_SHAPES: dict[type, str] = {bool: "boolean", float: "real"}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, list[int], list[Any]]).decode


class Type(StrEnum):
    """What a column holds, where it holds anything."""

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
    """A field of which a column is made."""

    group: str
    name: str
    rank: int
    """The place of its group in a row."""
    first: tuple[tuple[str | int, ...], int]
    """The first row, in the order of the export, that has it, and its place there."""
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

    def __init__(self, rows: Rows, *, apart: bool) -> None:
        """`apart`: rows of each kind have a table of their own, where they are kept apart at all."""
        self._rows = rows
        self._apart = apart
        self._parts: dict[str, int] = {}
        self._numbers: list[dict[tuple[str, str], int]] = []
        self._fields: list[list[_Field]] = []
        self._places: list[list[int]] = []
        """For each table, once all rows are known: the column of each field."""
        self.tables: list[ExportTable] = []

    def note(self, row: ExportRow, order: tuple[str | int, ...]) -> bytes:
        """Take a row into account, and pack it. `order` is its place among the rows as they are written."""
        part = self._part(self._rows.part_of(row) if self._apart else self._rows.table, order)
        numbers: list[int] = []
        values: list[Any] = []
        for place, (rank, group, name, value) in enumerate(self._cells(row)):
            number = self._seen(part, group, name, rank, (order, place))
            if value is None:
                continue
            self._fields[part][number].seen.add(_shape(value))
            numbers.append(number)
            values.append(_encode(value).decode() if type(value) in _NESTED else value)
        return _encode((part, numbers, values))

    def close(self) -> None:
        """All rows are known: now there are `tables`, one at least."""
        if not self._parts:
            self._part(self._rows.table, ())
        names = _Names("")
        for part, fields in zip(self._parts, self._fields, strict=True):
            ordered = sorted(fields, key=lambda field: (field.rank, field.first))
            named = self._named(ordered)
            columns = tuple(ExportColumn(named[field.group, field.name], field.type) for field in ordered)
            self.tables.append(ExportTable(names.take(part, self._rows.table), columns))
            place = {(field.group, field.name): number for number, field in enumerate(ordered)}
            self._places.append([place[field.group, field.name] for field in fields])

    def values(self, packed: bytes) -> tuple[int, list[Any]]:
        """The number of the table of a row, and its value in each column: None, or of the column's type."""
        part, numbers, values = _decode(packed)
        columns, places = self.tables[part].columns, self._places[part]
        row: list[Any] = [None] * len(columns)
        for number, value in zip(numbers, values, strict=True):
            place = places[number]
            row[place] = _cell(value, columns[place].type)
        return part, row

    def _part(self, name: str, order: tuple[str | int, ...]) -> int:
        if name not in self._parts:
            self._parts[name] = len(self._parts)
            fixed = [_Field("", column, 0, (order, number)) for number, column in enumerate(self._rows.fixed)]
            self._fields.append(fixed)
            self._numbers.append({("", field.name): number for number, field in enumerate(fixed)})
        return self._parts[name]

    def _cells(self, row: ExportRow) -> Iterator[tuple[int, str, str, Any]]:
        for name in self._rows.fixed:
            yield 0, "", name, getattr(row.line, name)
        for rank, group in enumerate(self._rows.groups(row), 1):
            for name, value in group.fields.items():
                yield rank, group.name, name, value

    def _seen(self, part: int, group: str, name: str, rank: int, here: tuple[tuple[str | int, ...], int]) -> int:
        """The number of a field, which this row has at this place."""
        number = self._numbers[part].get((group, name))
        if number is None:
            return self._new(part, _Field(group, name, rank, here))
        field = self._fields[part][number]
        field.first = min(field.first, here)
        return number

    def _new(self, part: int, field: _Field) -> int:
        fields = self._fields[part]
        if len(fields) == MOST_COLUMNS:
            raise UsageError(
                f"The {self._rows.noun}s have more than {MOST_COLUMNS:,} different fields ('{field.name[:50]}' is one "
                "more), and no table has so many columns. --format jsonl keeps them as they are."
            )
        fields.append(field)
        self._numbers[part][field.group, field.name] = len(fields) - 1
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
    """Names that are all different, for programs too that do not tell `Url` from `url`."""

    def __init__(self, *taken: str) -> None:
        self._taken = {"", *taken}

    def take(self, name: str, prefix: str) -> str:
        """The name, with a prefix and then a number where it is taken."""
        plain = name.replace("\0", "")
        free = (each for each in _candidates(plain, prefix) if each.casefold() not in self._taken)
        # SQLite keeps tables of such names for itself.
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
