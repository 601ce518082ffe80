"""The plans: what a claim, a settlement or a reap reads does not grow with what lies beside it.

The numbers of pages read are compared, not times. LONGSHORE_LONG=1 takes a million rows of each kind.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.services.postgres import PostgresServer

from longshore.media.postgres import migrate
from longshore.media.postgres.location import locate

ROWS = 1_000_000 if os.environ.get("LONGSHORE_LONG") else 40_000
PARTITIONS = 10_000

FILL = """
insert into family (run, kind) values ('run', 'page'), ('run', 'other'), ('old', 'page');
insert into lane (family, partition) select 1, n::text from generate_series(1, {partitions}) n;
insert into job (family, lane, priority, max_attempts, digest, key, host, payload)
  select 1 + n % 3, 1 + n % {partitions}, n % 5, 4, sha256(n::text::bytea), n::text, 'host', '{{}}'
  from generate_series(1, {rows}) n;
insert into ready (family, lane, priority, epoch, job, host)
  select family, lane, priority, 1, id, host_number(host) from job;
insert into job (family, lane, priority, max_attempts, digest, key, host, payload)
  select 1, 1, 0, 4, sha256(('d' || n)::bytea), 'd' || n, 'host', '{{}}' from generate_series(1, {rows}) n;
insert into done (job, state) select id, 'completed' from job where key like 'd%';
insert into delayed (job, family, lane, priority, epoch, host, due)
  select -n, 1, 1, 0, 1, 0, now() + interval '1 day' from generate_series(1, {rows} / 10) n;
"""
CLAIMS = {
    "everything": "null, null, null",
    "one run": "'run', null, null",
    "one kind": "'run', array['page'], null",
    "two kinds of any run": "null, array['page', 'other'], null",
    "five partitions": "'run', array['page'], array['7', '8', '9', '10', '11']",
}


class Database:
    """A connection that runs a statement and tells what all statements within it planned and read."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self.plans: list[str] = []
        connection.add_log_listener(lambda _, message: self.plans.append(str(message.message)))

    async def pages(self, call: str) -> int:
        """Pages that the call reads when it is warm. What it did is rolled back."""
        statement = f"explain (analyze, buffers, format json) select * from {call}"
        transaction = self.connection.transaction()
        await transaction.start()
        for _ in range(2):
            await self.connection.fetchval(statement)  # plans, and looks into the catalog
        self.plans.clear()
        top = json.loads(await self.connection.fetchval(statement))[0]["Plan"]
        await transaction.rollback()
        return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])

    def scanned(self) -> set[str]:
        """The tables that the last call read from end to end."""
        assert self.plans
        return {table for plan in self.plans for table in re.findall(r"Seq Scan on (\w+)", plan)}


@pytest.fixture
async def crowded(server: PostgresServer, url: str) -> AsyncIterator[Database]:
    """Very many rows of every kind, and statistics that were taken when there were none."""
    await migrate(url)
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"set search_path = {locate(url).quoted_schema}")
    await connection.execute("analyze ready, job, done, delayed, batch, worker")
    await connection.execute(FILL.format(rows=ROWS, partitions=PARTITIONS))
    await connection.execute(
        "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;"
        "set client_min_messages = log"
    )
    yield Database(connection)
    await connection.close()


def claim(filters: str, *, wanted: int = 100, without: str = "'{}'") -> str:
    return f"claim('anna/1', 'anna', 300, {wanted}, {filters}, {without}, 0, false, null, null, null, null)"


async def test_no_call_grows_with_what_lies_beside_it(crowded: Database) -> None:
    for name, filters in CLAIMS.items():
        # Each job costs its place in two tables and their indexes: a dozen pages, and as many once for the call.
        assert await crowded.pages(claim(filters)) < 100 * 16 + 500, name
        assert not crowded.scanned(), name

    await crowded.connection.execute(f"select from {claim(CLAIMS['one run'])}")
    (batch,) = await crowded.connection.fetch("select id, jobs, epochs from batch")
    results = f"array_fill('1'::json, array[{len(batch['jobs'])}])"
    nothing = ", ".join(["'{}'"] * 25)
    settle = (
        f"settle(array[{batch['id']}]::bigint[], '{{}}', array['anna/1'], array{batch['jobs']}::bigint[], "
        f"array{batch['epochs']}, array_fill(1, array[100]), {results}, array_fill(0.1::float8, array[100]), {nothing})"
    )
    assert await crowded.pages(settle) < 100 * 8 + 500
    assert not crowded.scanned()

    assert await crowded.pages("renew('anna/1', 'anna', 300, null)") < 100
    assert not crowded.scanned()

    await crowded.connection.execute("select from renew('anna/1', 'anna', -1, null)")
    assert await crowded.pages("reap()") < 100 * 40 + 500
    assert not crowded.scanned() - {"worker"}

    assert await crowded.pages("claimable('run', array['nothing'], null, '{}')") < 100
    assert not crowded.scanned()


async def test_a_claim_for_very_many_partitions_looks_once_into_each(crowded: Database) -> None:
    partitions = ", ".join(f"'{n}'" for n in range(1, 2001))
    # A look at the name of each, at its first and last host, and at its first job; and then as always.
    most = 2000 * (3 + 3 * 3) + 100 * 16 + 500
    assert await crowded.pages(claim(f"'run', array['page'], array[{partitions}]")) < most
    assert not crowded.scanned()


async def test_a_claim_keeps_its_plan_when_statistics_say_that_there_is_nothing(crowded: Database) -> None:
    """After an analyze of a table that was just empty, a planner left to itself reads all of it."""
    await crowded.connection.execute("truncate ready; analyze ready")
    await crowded.connection.execute("insert into ready select family, lane, priority, 1, id, 0 from job limit 50000")
    await crowded.pages(claim(CLAIMS["one kind"]))
    assert not crowded.scanned()
