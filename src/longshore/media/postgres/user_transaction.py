"""Calls on the user's own connection, in the user's transaction; the driver may be asyncpg or psycopg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from longshore.errors import UsageError
from longshore.media.postgres.faults import DRIVER_ERRORS, fault
from longshore.media.postgres.location import DatabaseLocation


async def call_in(connection: Any, location: DatabaseLocation, statement: str, *arguments: Any) -> Sequence[Any]:
    """Run a statement on the user's connection and return its rows. If it raises, the user must roll back."""
    driver = type(connection).__module__.partition(".")[0]
    if driver == "asyncpg":
        try:
            rows: Sequence[Any] = await connection.fetch(statement, *arguments)
        except DRIVER_ERRORS as error:
            raise fault(error, location) or error from error
        return rows
    if driver == "psycopg" and hasattr(connection, "execute"):
        # psycopg's parameters are named, asyncpg's are numbered. psycopg's errors pass unchanged to the user.
        named = {f"a{n}": value for n, value in enumerate(arguments, start=1)}
        cursor = await connection.execute(re.sub(r"\$(\d+)", r"%(a\1)s", statement), named)
        return list(await cursor.fetchall())
    raise UsageError(
        f"A {type(connection).__module__}.{type(connection).__qualname__} cannot be used for a submission. "
        "Fix: pass a connection of asyncpg, or an async connection of psycopg"
    )
