"""Marks: while an old snapshot keeps dead rows in the way, claims begin behind them, and still miss nothing."""

from __future__ import annotations

import json

import asyncpg
import msgspec
import pytest

from longshore.job import NewJob, new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue, claim_marks
from longshore.media.postgres.columns import host_number
from longshore.media.postgres.location import locate

WORKER = WorkerId.new()
ALL = Want(worker=WORKER, limit=10)


@pytest.fixture
def always_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look counts as slow, and marks last."""
    monkeypatch.setattr(claim_marks, "SLOW", -1.0)
    monkeypatch.setattr(claim_marks, "FAR", -1e9)
    monkeypatch.setattr(claim_marks, "RESPITE", 1e9)


def job(n: int, **rest: object) -> NewJob:
    return new_job("page", {"n": n}, **rest)  # type: ignore[arg-type]


async def taken(queue: PostgresQueue, want: Want = ALL) -> list[int]:
    return [lease.job.payload["n"] for lease in await queue.claim(want)]


@pytest.mark.usefixtures("always_slow")
async def test_jobs_come_in_order_and_all_of_them(queue: PostgresQueue) -> None:
    await queue.submit([job(n, priority=n % 3, partition=f"{n % 4}") for n in range(95)])
    got = [n for _ in range(11) for n in await taken(queue)]
    assert got == sorted(range(95), key=lambda n: (n % 3, n))


@pytest.mark.usefixtures("always_slow")
async def test_what_was_put_in_front_of_the_marks_is_found_when_nothing_is_behind_them(queue: PostgresQueue) -> None:
    await queue.submit([job(n, priority=5) for n in range(40)])
    assert [await taken(queue) for _ in range(3)] == [[*range(10)], [*range(10, 20)], [*range(20, 30)]]
    await queue.submit([job(n, priority=1) for n in range(100, 103)])
    assert await taken(queue) == [*range(30, 40)]
    assert await taken(queue) == [100, 101, 102]


@pytest.mark.usefixtures("always_slow")
async def test_a_claim_that_the_marks_do_not_fill_is_filled_from_the_beginning(queue: PostgresQueue) -> None:
    await queue.submit([job(n, priority=5) for n in range(25)])
    assert [await taken(queue) for _ in range(2)] == [[*range(10)], [*range(10, 20)]]
    await queue.submit([job(n, priority=1) for n in range(100, 103)])
    assert sorted(await taken(queue)) == [20, 21, 22, 23, 24, 100, 101, 102]


@pytest.mark.usefixtures("always_slow")
async def test_each_filter_has_marks_of_its_own(queue: PostgresQueue) -> None:
    await queue.submit([job(n, partition=f"{n % 2}") for n in range(60)])
    odd = Want(worker=WORKER, limit=10, partitions=frozenset({"1"}))
    assert [await taken(queue, odd) for _ in range(2)] == [[*range(1, 20, 2)], [*range(21, 40, 2)]]
    assert await taken(queue) == [*range(0, 20, 2)]


@pytest.mark.usefixtures("always_slow")
async def test_hosts_take_turns_behind_the_marks_too(queue: PostgresQueue) -> None:
    await queue.submit([job(n, host=f"{n % 4}.test", partition=f"{n % 3}", priority=n // 40) for n in range(80)])
    for _ in range(8):
        batch = await taken(queue)
        assert {[n % 4 for n in batch].count(host) for host in range(4)} <= {2, 3}
    assert await taken(queue) == []


@pytest.mark.usefixtures("always_slow")
async def test_a_host_that_closed_meanwhile_is_passed_over_behind_the_marks_too(queue: PostgresQueue) -> None:
    await queue.submit([job(n, host=f"{n % 2}.test") for n in range(60)])
    for _ in range(2):
        await taken(queue)
    open_only = msgspec.structs.replace(ALL, without_hosts=frozenset({"1.test"}))
    assert [n for _ in range(3) for n in await taken(queue, open_only)] == [*range(20, 60, 2)]
    assert len([n for _ in range(3) for n in await taken(queue)]) == 20


async def test_without_trouble_a_better_priority_is_always_first(queue: PostgresQueue) -> None:
    await queue.submit([job(n, priority=5) for n in range(100)])
    for n in range(5):
        await taken(queue)
        await queue.submit([job(1000 + n, priority=1)])
        assert (await taken(queue))[0] == 1000 + n


async def test_a_busy_machine_is_no_trouble(queue: PostgresQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_marks, "SLOW", -1.0)
    await queue.submit([job(n, priority=5, host=f"{n % 200}.test", partition=f"{n % 2}") for n in range(2000)])
    for partitions in (None, frozenset({"0", "1"})):
        want = msgspec.structs.replace(ALL, limit=100, partitions=partitions)
        for _ in range(4):
            await taken(queue, want)
        await queue.submit([job(5000 + len(partitions or ()), priority=1, partition="0")])
        assert (await taken(queue, want))[0] >= 5000


async def test_dead_rows_are_noticed_by_the_pages_read(queue: PostgresQueue, url: str) -> None:
    location = locate(url)
    await queue.submit([job(n) for n in range(40_000)])
    reader = await asyncpg.connect(location.dsn)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval(f"select count(*) from {location.quoted_schema}.ready")  # holds the snapshot
        want = msgspec.structs.replace(ALL, limit=2000)
        for _ in range(19):
            await queue.claim(want)
        (row, *_) = await queue._call(
            "claim", "w", "w", 300.0, 10, None, None, None, [], 0, True, None, None, None, None
        )
    await reader.close()
    assert row["pages"] > claim_marks.FAR + claim_marks.FAR_EACH * 10 + claim_marks.FAR_STRAND


async def test_under_a_held_snapshot_a_claim_reads_only_what_it_takes(queue: PostgresQueue, url: str) -> None:
    location = locate(url)
    await queue.submit([job(n) for n in range(40_000)])
    reader = await asyncpg.connect(location.dsn)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval(f"select count(*) from {location.quoted_schema}.ready")  # holds the snapshot
        big = Want(worker=WORKER, limit=2000)
        for _ in range(18):
            await queue.claim(big)
        last = await _last_claimed(location.quoted_schema, url)
        from_start = await _read_by_claim(url, "null, null, null, null")
        from_mark = await _read_by_claim(
            url, f"array[1], array[0], array[{host_number('')}], array[{last + 1}::bigint]"
        )
    await reader.close()
    assert from_mark * 4 < from_start


async def _last_claimed(schema: str, url: str) -> int:
    connection = await asyncpg.connect(locate(url).dsn)
    last = await connection.fetchval(f"select max(j) from {schema}.batch, unnest(jobs) j")
    await connection.close()
    return int(last)


async def _read_by_claim(url: str, claim_marks: str) -> int:
    """How many pages a claim of ten reads; it is rolled back."""
    schema = locate(url).quoted_schema
    connection = await asyncpg.connect(locate(url).dsn)
    transaction = connection.transaction()
    await transaction.start()
    statement = (
        "explain (analyze, buffers, format json) "
        f"select * from {schema}.claim('w', 'w', 300, 10, null, null, null, '{{}}', 0, false, {claim_marks})"
    )
    for _ in range(3):
        await connection.fetchval(statement)  # the first calls of a session also read the catalog
    plan = await connection.fetchval(statement)
    await transaction.rollback()
    await connection.close()
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
