"""Writes that come in together share a commit, and yet each stands for itself."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from longshore.media.sqlite.database import Database
from longshore.media.sqlite.select import prepare


def number(database: sqlite3.Connection) -> int:
    (value,) = database.execute("SELECT next_job FROM sequence").fetchone()
    return int(value)


def count_on(db: sqlite3.Connection) -> int:
    db.execute("UPDATE sequence SET next_job = next_job + 1")
    return number(db)


def stumble(db: sqlite3.Connection) -> int:
    db.execute("UPDATE sequence SET next_job = next_job + 100")
    raise LookupError("on purpose")


async def together(database: Database, *works: Callable[[sqlite3.Connection], int]) -> list[int | BaseException]:
    """The answers to writes that all come in while the thread is busy."""
    go = threading.Event()
    busy = asyncio.ensure_future(database.read(lambda db: go.wait(30)))
    await asyncio.sleep(0)
    writes = [asyncio.ensure_future(database.write(work)) for work in works]
    await asyncio.sleep(0)
    go.set()
    await busy
    return await asyncio.gather(*writes, return_exceptions=True)


async def test_writes_that_come_in_together_are_one_transaction(file: Path) -> None:
    database = await Database.open(file, prepare)
    begun: list[str] = []
    await database.read(lambda db: db.set_trace_callback(begun.append))
    assert await together(database, count_on, count_on, count_on) == [2, 3, 4]
    assert begun.count("BEGIN IMMEDIATE") == 1
    await database.close()


async def test_one_that_goes_wrong_takes_no_other_with_it(file: Path) -> None:
    database = await Database.open(file, prepare)
    first, second, third = await together(database, count_on, stumble, count_on)
    assert (first, third) == (2, 3)
    assert isinstance(second, LookupError)
    assert await database.read(number) == 3
    await database.close()


async def test_a_write_cancelled_before_its_turn_is_not_made(file: Path) -> None:
    database = await Database.open(file, prepare)
    go = threading.Event()
    busy = asyncio.ensure_future(database.read(lambda db: go.wait(30)))
    await asyncio.sleep(0)
    write = asyncio.ensure_future(database.write(count_on))
    await asyncio.sleep(0)
    write.cancel()
    await asyncio.sleep(0)
    go.set()
    await busy
    assert await database.read(number) == 1
    await database.close()
