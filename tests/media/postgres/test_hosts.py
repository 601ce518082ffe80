"""Hosts in PostgreSQL: what a claim reads does not grow with what closed hosts have, nor with the number of hosts.

The numbers of pages read are compared, not times. LONGSHORE_LONG=1 takes a million jobs where there are many.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.media.postgres.test_plans import Database

from longshore.job import NewJob, new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.columns import host_number
from longshore.media.postgres.location import locate

MANY = 1_000_000 if os.environ.get("LONGSHORE_LONG") else 200_000
WORKER = WorkerId.new("anna")

FILL = """
with added as (
  insert into job (family, lane, priority, max_attempts, digest, key, host, payload)
    select 1, 1 + n % {lanes}, {priority}, 4, sha256(('{host}' || n)::bytea), '{host}' || n, {name}, '{{}}'
    from generate_series(1, {jobs}) n
  returning id, family, lane, priority, host
)
insert into ready (family, lane, priority, epoch, job, host)
  select family, lane, priority, 1, id, host_number(host) from added;
"""
CLOSED = {"closed.test": 0, "shut.test": 0, "urgent.test": -1}
LINES = {"one line": "'run', array['page'], null", "four lines": "'run', array['page'], array['1', '2', '3', '4']"}


@pytest.fixture
async def database(queue: PostgresQueue, url: str) -> AsyncIterator[Database]:
    del queue  # it makes the schema, and stays open
    connection = await asyncpg.connect(locate(url).dsn)
    await connection.execute(
        f"set search_path = {locate(url).quoted_schema};"
        "insert into family (run, kind) values ('run', 'page');"
        "insert into lane (family, partition) select 1, n::text from generate_series(1, 4) n"
    )
    yield Database(connection)
    await connection.close()


async def fill(database: Database, host: str, jobs: int, *, hosts: int = 1, priority: int = 0) -> None:
    name = f"'{host}'" if hosts == 1 else f"'{host}' || n % {hosts}"
    await database.connection.execute(FILL.format(host=host, name=name, jobs=jobs, priority=priority, lanes=4))
    # What tempts the planner most: it knows how many there are, and that a look into the index alone would do.
    await database.connection.execute("vacuum analyze ready")


async def pages(database: Database, line: str, *, without: tuple[str, ...] = (), wanted: int = 100) -> int:
    closed = sorted(host_number(host) for host in without)
    numbers = ", ".join(f"'{number}'::bigint" for number in closed)
    arguments = f"{LINES[line]}, array[{numbers}]::bigint[], 0, false, null, null, null, null"
    return await database.pages(f"claim('anna/1', 'anna', 300, {wanted}, {arguments})")


@pytest.mark.parametrize("line", LINES)
async def test_what_a_closed_host_has_in_front_costs_one_step(database: Database, line: str) -> None:
    await fill(database, "open.test", 20_000)
    without = await pages(database, line, without=("closed.test",))
    for closed, priority in CLOSED.items():
        await fill(database, closed, MANY // len(CLOSED), priority=priority)
    behind = await pages(database, line, without=tuple(CLOSED))
    assert behind < without * 2  # the index is a level deeper
    many = await pages(database, line, without=(*CLOSED, *(f"{n}.test" for n in range(3000))))
    assert many == pytest.approx(behind, abs=50)


@pytest.mark.parametrize("line", LINES)
async def test_a_claim_reads_of_very_many_hosts_only_those_it_takes_from(database: Database, line: str) -> None:
    await fill(database, "few.test", 1000, hosts=200)
    few = await pages(database, line)
    await fill(database, "many.test", 100_000, hosts=20_000)
    # The index is a level deeper.
    assert await pages(database, line) < few * 2


async def test_where_each_job_has_a_host_of_its_own_many_are_found_at_once(database: Database) -> None:
    await fill(database, "one.test", 20_000)
    one = await pages(database, "one line")
    await database.connection.execute("delete from ready")
    await fill(database, "each.test", 20_000, hosts=20_000)
    # A step to each host would be four pages more for each, and as many to go there again.
    assert await pages(database, "one line") < one + 100 * 5


async def test_a_host_whose_oldest_job_is_being_claimed_gives_the_next(queue: PostgresQueue, url: str) -> None:
    await queue.submit([_job(n, host=f"{n % 3}.test") for n in range(9)])
    other = await asyncpg.connect(locate(url).dsn)
    async with other.transaction():
        ready = f"{locate(url).quoted_schema}.ready"
        oldest = f"select min(job) from {ready} group by host"
        await other.execute(f"select from {ready} where job in ({oldest}) for update")
        leases = await queue.claim(Want(worker=WORKER, limit=3))
    await other.close()
    assert sorted(lease.job.payload["n"] for lease in leases) == [3, 4, 5]


async def test_waiting_steps_over_closed_hosts(database: Database) -> None:
    await fill(database, "closed.test", MANY)
    for filters in LINES.values():
        claimable = f"claimable({filters}, array[{host_number('closed.test')}::bigint])"
        assert await database.pages(claimable) < 100


async def test_everything_of_very_many_hosts_is_claimed_once(queue: PostgresQueue, url: str) -> None:
    other = await PostgresQueue.open(url, queue._clock)
    await queue.submit([_job(n, host=f"{n % 700}.test", partition=f"{n % 3}") for n in range(3000)])
    got: Counter[str] = Counter()
    for turn in range(100):
        for opening, limit in ((queue, 70), (other, 33)):
            wanted = None if turn % 2 else frozenset({"0", "1", "2"})
            leases = await opening.claim(Want(worker=WORKER, limit=limit, partitions=wanted))
            got.update(lease.job.id for lease in leases)
    assert len(got) == 3000
    assert set(got.values()) == {1}
    await other.close()


async def test_every_host_has_its_turn_within_one_round(queue: PostgresQueue) -> None:
    await queue.submit([_job(n, host=f"{n % 50}.test") for n in range(1000)])
    for _ in range(4):
        hosts = [lease.job.host for _ in range(5) for lease in await queue.claim(Want(worker=WORKER, limit=10))]
        assert len(set(hosts)) == 50
    hosts = [lease.job.host for _ in range(10) for lease in await queue.claim(Want(worker=WORKER, limit=35))]
    assert set(Counter(hosts).values()) == {7}


async def test_hosts_come_by_turns_within_a_claim(queue: PostgresQueue) -> None:
    await queue.submit([_job(n, host=f"{n // 10}.test") for n in range(30)])
    hosts = [lease.job.host for lease in await queue.claim(Want(worker=WORKER, limit=9))]
    assert hosts[:3] == hosts[3:6] == hosts[6:]
    assert len(set(hosts)) == 3


async def test_hosts_in_more_lines_than_a_claim_takes_still_take_turns(queue: PostgresQueue) -> None:
    partitions = frozenset(map(str, range(40)))
    await queue.submit([_job(n, host=f"{n % 25}.test", partition=f"{n // 25}") for n in range(1000)])
    want = Want(worker=WORKER, limit=5, partitions=partitions)
    claims = [[lease.job for lease in await queue.claim(want)] for _ in range(50)]
    jobs = [job for claim in claims for job in claim]
    assert set(Counter(job.host for job in jobs).values()) <= set(range(5, 16))
    for host in {job.host for job in jobs}:
        mine = [int(job.id) for job in jobs if job.host == host]
        assert mine == sorted(mine)


async def test_client_and_server_give_a_host_the_same_number(database: Database) -> None:
    for host in ("", "x.test", "Grüße.test", "a\tb", "👩‍👩‍👧"):
        assert await database.connection.fetchval("select host_number($1)", host) == host_number(host)


def _job(number: int, **rest: object) -> NewJob:
    return new_job("page", {"n": number}, run="run", **rest)  # type: ignore[arg-type]
