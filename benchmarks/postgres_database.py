"""A database of its own for each contestant and turn, so that nobody works beside what another left to clean up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from tests.services.postgres import PostgresServer

SETTINGS = {"max_wal_size": "'4GB'", "shared_buffers": "'512MB'"}
"""As it comes, but for more room for its log and its pages: both are the first things anyone raises."""
_numbers = itertools.count()


def start_server() -> PostgresServer:
    """A server that syncs what it commits."""
    return PostgresServer(fsync=True, settings=SETTINGS)


@contextmanager
def fresh_database(server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database, gone afterwards."""
    name = f"turn_{next(_numbers)}"
    execute(server.url, f"create database {name}")
    try:
        yield server.url_of(name)
    finally:
        execute(server.url, f"drop database {name} with (force)")


def settle_down(url: str) -> None:
    """Do what autovacuum would have done by now, and write out what was filled in."""
    execute(url, "vacuum analyze")
    execute(url, "checkpoint")


def execute(url: str, statements: str) -> None:
    """Run SQL that answers nothing."""
    asyncio.run(_execute(url, statements))


async def _execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()
