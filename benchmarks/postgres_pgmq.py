"""pgmq: its SQL from its Python package, read in batches by asyncpg, which is the fastest way to it from Python."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from pathlib import Path

import asyncpg
import msgspec

from benchmarks.measure import PAYLOAD, Settled, meet

MISSING = "not measured: `pip install pgmq`, which brings its SQL"
VISIBILITY_SECONDS = 300
SEND_BATCH = 1000


def sql_file() -> Path | None:
    """The extension as plain SQL, where the package is installed."""
    spec = importlib.util.find_spec("pgmq")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    found = [Path(folder) / "sql" / "pgmq.sql" for folder in folders]
    return next((file for file in found if file.exists()), None)


def fill(url: str, jobs: int) -> None:
    """Install it, and send messages to a queue."""
    asyncio.run(_fill(url, jobs))


async def _fill(url: str, jobs: int) -> None:
    file = sql_file()
    assert file is not None, MISSING
    connection = await asyncpg.connect(url)
    await connection.execute(file.read_text())
    await connection.execute("select pgmq.create('page')")
    encode = msgspec.json.Encoder().encode
    for first in range(0, jobs, SEND_BATCH):
        numbers = range(first, min(first + SEND_BATCH, jobs))
        messages = [encode({**PAYLOAD, "n": n}).decode() for n in numbers]
        await connection.execute("select pgmq.send_batch('page', $1::text[]::jsonb[])", messages)
    await connection.close()


def drain(url: str, batch: int, how: str) -> list[Settled]:
    """Read and `archive` or `delete` batch after batch until nothing is left."""
    return asyncio.run(_drain(url, batch, how))


async def _drain(url: str, batch: int, how: str) -> list[Settled]:
    connection = await asyncpg.connect(url)
    done, name = [], str(os.getpid())
    meet()
    read = "select msg_id, message from pgmq.read('page', $1, $2)"
    while rows := await connection.fetch(read, VISIBILITY_SECONDS, batch):
        await connection.fetch(f"select pgmq.{how}('page', $1::bigint[])", [row["msg_id"] for row in rows])
        done.append(Settled(name, time.monotonic(), len(rows)))
    await connection.close()
    return done
