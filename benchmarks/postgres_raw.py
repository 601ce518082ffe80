"""The bare minimum on PostgreSQL: one table, two updates a job, no lease, no fence, no retry, no statistics."""

from __future__ import annotations

import asyncio
import os
import time
from hashlib import sha256

import asyncpg
import msgspec

from benchmarks.measure import PAYLOAD, Settled, meet

CREATE = """
create table raw_job (
  id bigint generated always as identity primary key,
  key text not null {unique},
  payload json not null,
  priority int not null default 0,
  state smallint not null default 0
);
create index raw_job_to_claim on raw_job (priority, id) where state = 0
"""
CLAIM = """
update raw_job set state = 1 where id = any (array(
  select id from raw_job where state = 0 order by priority, id limit $1 for update skip locked
)) returning id, payload
"""
SETTLE = "update raw_job set state = 2 where id = any ($1::bigint[])"
COPY_BATCH = 5000


def fill(url: str, jobs: int, *, unique: bool, encoded: bool = False) -> float:
    """Make the table and COPY jobs into it. Jobs a second, from keys and payloads that are dictionaries.

    With `unique` each key is checked. With `encoded` the payloads are made JSON before the clock runs.
    """
    return asyncio.run(_fill(url, jobs, unique=unique, encoded=encoded))


async def _fill(url: str, jobs: int, *, unique: bool, encoded: bool) -> float:
    connection = await asyncpg.connect(url)
    await connection.execute(CREATE.format(unique="unique" if unique else ""))
    await connection.execute("checkpoint")
    encode = msgspec.json.Encoder().encode
    seconds = 0.0
    for first in range(0, jobs, COPY_BATCH):
        numbers = range(first, min(first + COPY_BATCH, jobs))
        values = [(sha256(b"%d" % n).hexdigest(), {**PAYLOAD, "n": n}) for n in numbers]
        ready = [(key, encode(payload).decode()) for key, payload in values] if encoded else None
        begin = time.monotonic()
        rows = ready or [(key, encode(payload).decode()) for key, payload in values]
        await connection.copy_records_to_table("raw_job", records=rows, columns=["key", "payload"])
        seconds += time.monotonic() - begin
    await connection.close()
    return jobs / seconds


def drain(url: str, batch: int) -> list[Settled]:
    """Claim and finish batch after batch until nothing is left."""
    return asyncio.run(_drain(url, batch))


async def _drain(url: str, batch: int) -> list[Settled]:
    connection = await asyncpg.connect(url)
    done, name = [], str(os.getpid())
    meet()
    while rows := await connection.fetch(CLAIM, batch):
        await connection.execute(SETTLE, [row["id"] for row in rows])
        done.append(Settled(name, time.monotonic(), len(rows)))
    await connection.close()
    return done
