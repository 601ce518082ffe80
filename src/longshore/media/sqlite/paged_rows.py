"""Read the rows of a statement page by page: an open cursor would prevent the reuse of its statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

SMALL, LARGE = 8, 100
"""Rows of the first page (a default) and of each later page."""


def pages(db: sqlite3.Connection, statement: str, values: Mapping[str, Any], size: int = SMALL) -> Iterator[Any]:
    """Yield the rows of a statement that takes `:size`, the page's size, and `:read`, the number of earlier rows."""
    read = 0
    while True:
        rows = db.execute(statement, {**values, "size": size, "read": read}).fetchall()
        yield from rows
        if len(rows) < size:
            return
        read, size = read + size, LARGE


def steps(db: sqlite3.Connection, statement: str, values: Mapping[str, Any], after: int, until: int) -> Iterator[Any]:
    """Yield rows by their first column, greater than `:after` and at most `:until`; `:size` is the page's size."""
    size = SMALL
    while after < until:
        rows = db.execute(statement, {**values, "size": size, "after": after, "until": until}).fetchall()
        yield from rows
        after, size = rows[-1][0] if len(rows) == size else until, LARGE
