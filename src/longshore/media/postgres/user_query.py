"""Read the rows of a user's query page by page, through a server-side cursor in a read-only transaction."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import asyncpg

from longshore.errors import UsageError
from longshore.media.postgres.connections import RECONNECT_TIMEOUT
from longshore.media.postgres.faults import DRIVER_ERRORS, fault
from longshore.media.postgres.location import locate

# Matches strings, quoted names, comments and casts in order to skip them; any other `:name` is a parameter.
_NAMED = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|::|(?<!\w):(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
# SQLSTATE classes of errors in the query itself: its syntax, names, values or permissions.
_WRONG = ("0A", "22", "25", "26", "42")


class RowPage(NamedTuple):
    """A page of consecutive rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


async def pages_of(url: str, query: str, parameters: Mapping[str, Any], *, size: int) -> AsyncGenerator[RowPage, None]:
    """Yield the rows of a query in pages of `size` rows. The query contains its parameters as `:name`.

    Raises `UsageError` if the query is wrong, and a `QueueError` if the database cannot be reached.
    """
    location = locate(url)
    statement, names = numbered(query)
    if missing := [name for name in names if name not in parameters]:
        raise UsageError(f"The query has the parameter :{missing[0]}, and no value was given for it.")
    if unused := [name for name in parameters if name not in names]:
        raise UsageError(f"A value was given for '{unused[0]}', and the query has no parameter :{unused[0]}.")
    try:
        connection = await asyncpg.connect(location.dsn, statement_cache_size=0, timeout=RECONNECT_TIMEOUT)
        try:
            async with connection.transaction(readonly=True):
                prepared = await connection.prepare(statement)
                columns = [attribute.name for attribute in prepared.get_attributes()]
                types = [kind.name for kind in prepared.get_parameters()]
                values = [_typed(name, parameters[name], kind) for name, kind in zip(names, types, strict=True)]
                cursor = await prepared.cursor(*values)
                while found := await cursor.fetch(size):
                    yield RowPage(columns, [tuple(row) for row in found])
        finally:
            # Terminate instead of close, which could wait for a running query.
            connection.terminate()
    except asyncpg.DataError as error:
        raise UsageError(f"The query fails in {location.shown}: {error}.") from error
    except DRIVER_ERRORS as error:
        if isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith(_WRONG):
            raise UsageError(f"The query fails in {location.shown}: {error.args[0]}.") from error
        raise fault(error, location) or error from error


def numbered(query: str) -> tuple[str, list[str]]:
    """Return the query with `$1` instead of `:name`, and the names in the order of the numbers."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAMED.sub(number, query), names


_READ: Mapping[str, Callable[[str], Any]] = {
    "int2": int,
    "int4": int,
    "int8": int,
    "float4": float,
    "float8": float,
    "numeric": Decimal,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
}


def _typed(name: str, value: Any, kind: str) -> Any:
    """Convert a value for the driver: a value from the command line is text, whatever type the query expects."""
    if kind in {"text", "varchar", "bpchar", "name"}:
        return str(value)
    if not isinstance(value, str) or kind not in _READ:
        return value
    try:
        return _READ[kind](value)
    except (ValueError, KeyError, ArithmeticError):
        raise UsageError(f"The parameter :{name} of the query must be a {kind}, not '{value}'.") from None
