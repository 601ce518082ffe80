"""Waiting for what only the server can see: there is nobody to signal it, so it is asked until it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg

Rows = list[asyncpg.Record]


async def until(connection: asyncpg.Connection[asyncpg.Record], statement: str, holds: Callable[[Rows], bool]) -> Rows:
    """Ask until the answer is as it should be, and return it. The test's own timeout is the limit."""
    async with asyncio.timeout(30):
        while True:
            rows = await connection.fetch(statement)
            if holds(rows):
                return rows
            await asyncio.sleep(0.01)
