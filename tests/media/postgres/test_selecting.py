"""Pages of jobs: each state is found where its jobs are, and what lies in front of them or behind is not stepped over.

The numbers of pages read are compared, not times. LONGSHORE_LONG=1 takes a million jobs.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from longshore.extensions.transfer import Carried
from longshore.job import Job, State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.bulk import MIN_COPY_JOBS
from longshore.media.postgres.location import locate
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection

ROWS = 1_000_000 if os.environ.get("LONGSHORE_LONG") else 40_000
PAGE = 100

FILL = f"""
insert into family (run, kind, since)
  values ('before', 'page', 0), ('big', 'page', {ROWS}), ('after', 'page', {2 * ROWS});
insert into lane (family, partition) select f, '' from generate_series(1, 3) f;
insert into job (family, lane, priority, max_attempts, digest, key, host, payload)
  select f, f, 0, 4, sha256(n::text::bytea), n::text, 'host', '{{}}'
  from generate_series(1, 3) f cross join generate_series(1, {ROWS}) n order by f, n;
insert into done (job, state)
  select id, case when id % {ROWS // 200} = 0 then 'failed' else 'completed' end::finish
  from job where id not between {2 * ROWS - 1000} and {2 * ROWS - 1};
insert into ready (family, lane, priority, epoch, job, host)
  select family, lane, priority, 1, id, 0 from job where id between {2 * ROWS - 1000} and {2 * ROWS - 1};
insert into family (run, kind, since) values ('small', 'page', {ROWS});
insert into lane (family, partition) values (4, '');
update job set family = 4, lane = 4 where id in ({ROWS + 5}, {ROWS + 6});
"""


class Finished:
    """A connection to a queue where nearly all is finished: a run before, a big one, and one after it."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection

    async def ids(self, run: str, states: str, after: int = 0) -> list[int]:
        return [row[0] for row in await self.connection.fetch(_call(run, states, after))]

    async def pages(self, run: str, states: str, after: int = 0) -> int:
        """Pages that it takes to find them when it is warm."""
        for _ in range(2):
            plan = await self.connection.fetchval(
                f"explain (analyze, buffers, format json) {_call(run, states, after)}"
            )
        top = json.loads(plan)[0]["Plan"]
        return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])


def _call(run: str, states: str, after: int) -> str:
    return f"select selected_ids({run}, null, null, null, '{{{states}}}', null, null, {after}, {PAGE})"


@pytest.fixture
async def finished(queue: PostgresQueue, url: str) -> AsyncIterator[Finished]:
    connection = await asyncpg.connect(locate(url).dsn)
    await connection.execute(f"set search_path = {locate(url).quoted_schema}")
    try:
        await connection.execute(FILL)
        await connection.execute("vacuum analyze job")
        yield Finished(connection)
    finally:
        await connection.close()


async def test_no_page_steps_over_what_is_finished(finished: Finished) -> None:
    near, last = ROWS + 10 * PAGE, 2 * ROWS - 1000
    # A job that is looked up costs four pages at most; the ids nearby lie close together. To step over what is finished
    # takes a thousand and more, in a short test.
    most = 5 * PAGE
    assert await finished.ids("'big'", "pending") == [*range(last, last + PAGE)]
    assert await finished.pages("'big'", "pending") < most
    assert await finished.pages("null", "pending") < most
    assert await finished.pages("'big'", "pending", last + PAGE) < most
    assert await finished.pages("'big'", "claimed") < most
    assert len(await finished.ids("'big'", "failed")) == PAGE
    assert await finished.pages("'big'", "failed") < most
    # Neither over the run before it, nor a small one over all that came after it.
    assert (await finished.ids("'big'", "completed,failed"))[0] < near
    assert await finished.pages("'big'", "completed,failed") < most
    assert await finished.ids("'small'", "completed") == [ROWS + 5, ROWS + 6]
    assert await finished.pages("'small'", "completed") < most
    assert await finished.pages("'small'", "completed", ROWS + 6) < most
    assert await finished.pages("'small'", "pending") < most


async def test_a_run_begins_in_front_of_all_its_jobs_whoever_submits_them(queue: PostgresQueue, url: str) -> None:
    """Small and large batches, follow-on jobs, jobs of other queues, and all of these at once."""

    async def submit(n: int) -> None:
        size = MIN_COPY_JOBS if n % 3 == 0 else 3
        await queue.submit([new_job("page", {"n": n, "i": i}, run=f"{i % 4}") for i in range(size)])
        await queue.take_over([Carried(_finished(f"over {n}", run=f"{n % 4 + 2}"), ())])
        for lease in await queue.claim(Want(worker=WorkerId.new(), limit=2)):
            follow_on = new_job(f"deeper {n % 2}", {"n": n, "of": lease.job.id})
            await queue.settle([Settlement(lease, Completed(jobs=(follow_on,)))])

    await asyncio.gather(*(submit(n) for n in range(12)))
    assert await _in_front(url) == []


async def test_a_run_whose_first_submission_was_undone_begins_with_the_next(queue: PostgresQueue, url: str) -> None:
    """Another waits for the first, draws no number before it knows, and makes the run itself."""
    mine = await asyncpg.connect(locate(url).dsn)
    undone = mine.transaction()
    await undone.start()
    await queue.submit_in(mine, [new_job("page", {"n": 1}, run="r")])
    waiting = asyncio.create_task(queue.submit([new_job("page", {"n": n}, run="r") for n in range(3)]))
    await queue.submit([new_job("page", {"n": n}, run="other") for n in range(MIN_COPY_JOBS)])
    await undone.rollback()
    await waiting
    await mine.close()
    assert await _in_front(url) == []
    assert len(await queue.jobs(Selection(run="r", states=frozenset({State.PENDING})))) == 3


async def test_nobody_draws_numbers_ahead(queue: PostgresQueue, url: str) -> None:
    """A session that kept some for later would put a job in front of the beginning of its run."""
    connection = await asyncpg.connect(locate(url).dsn)
    call = "select seqcache from pg_sequence where seqrelid = pg_get_serial_sequence($1, 'id')::regclass"
    assert await connection.fetchval(call, f"{locate(url).quoted_schema}.job") == 1
    await connection.close()


async def _in_front(url: str) -> list[Any]:
    """Jobs that lie in front of the beginning of their run."""
    connection = await asyncpg.connect(locate(url).dsn)
    await connection.execute(f"set search_path = {locate(url).quoted_schema}")
    found = await connection.fetch(
        "select j.id, f.run, f.since from job j join family f on f.id = j.family where j.id <= f.since"
    )
    assert await connection.fetchval("select max(since) from family") > 0
    await connection.close()
    return found


def _finished(key: str, run: str) -> Job:
    return Job(id="1", run=run, kind="page", key=key, payload={}, state=State.COMPLETED, epoch=1, attempts=1)
