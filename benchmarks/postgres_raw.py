"""The bare minimum on PostgreSQL: one table, two updates a job, no lease, no fence, no retry, no statistics."""

from __future__ import annotations

import asyncio
import json
import time
from hashlib import sha256

import asyncpg

from benchmarks.measure import PAYLOAD

CREATE = """
drop table if exists raw_job;
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


def fill(url: str, jobs: int, *, unique: bool) -> float:
    """Make the table and COPY jobs into it. Jobs a second; with `unique` each key is checked."""
    return asyncio.run(_fill(url, jobs, unique=unique))


async def _fill(url: str, jobs: int, *, unique: bool) -> float:
    connection = await asyncpg.connect(url)
    await connection.execute(CREATE.format(unique="unique" if unique else ""))
    await connection.execute("checkpoint")
    seconds = 0.0
    for first in range(0, jobs, COPY_BATCH):
        numbers = range(first, min(first + COPY_BATCH, jobs))
        rows = [(sha256(b"%d" % n).hexdigest(), json.dumps({**PAYLOAD, "n": n})) for n in numbers]
        begin = time.monotonic()
        await connection.copy_records_to_table("raw_job", records=rows, columns=["key", "payload"])
        seconds += time.monotonic() - begin
    await connection.execute("vacuum analyze raw_job")
    await connection.close()
    return jobs / seconds


def drain(url: str, batch: int) -> int:
    """Claim and finish batch after batch until nothing is left."""
    return asyncio.run(_drain(url, batch))


async def _drain(url: str, batch: int) -> int:
    connection = await asyncpg.connect(url)
    done = 0
    while rows := await connection.fetch(CLAIM, batch):
        await connection.execute(SETTLE, [row["id"] for row in rows])
        done += len(rows)
    await connection.close()
    return done
