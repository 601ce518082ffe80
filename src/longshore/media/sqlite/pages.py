"""Rows of a statement, a page at a time: a cursor left open would keep its statement from being used again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

SMALL, LARGE = 8, 100
"""Rows of the first page, unless the caller knows better, and of the others."""


def pages(db: sqlite3.Connection, statement: str, values: Mapping[str, Any], size: int = SMALL) -> Iterator[Any]:
    """The rows of a statement with a `:size`, and with a `:read` that says how many were read before."""
    read = 0
    while True:
        rows = db.execute(statement, {**values, "size": size, "read": read}).fetchall()
        yield from rows
        if len(rows) < size:
            return
        read, size = read + size, LARGE


def steps(db: sqlite3.Connection, statement: str, values: Mapping[str, Any], after: int, until: int) -> Iterator[Any]:
    """Rows in the order of their first column, which lies behind `:after` and not behind `:until`; with a `:size`."""
    size = SMALL
    while after < until:
        rows = db.execute(statement, {**values, "size": size, "after": after, "until": until}).fetchall()
        yield from rows
        after, size = rows[-1][0] if len(rows) == size else until, LARGE
