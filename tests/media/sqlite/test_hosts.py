"""Hosts take turns, at a cost that depends neither on how many jobs a host has nor on how many hosts there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.extensions.transfer import Carried
from longshore.job import Job, NewJob, new_job
from longshore.lease import Want, WorkerId
from longshore.media.sqlite import SqliteQueue, wanted_lanes
from longshore.media.sqlite.claim import can_take, take
from longshore.media.sqlite.host_turns import _REMEMBERED, HostTurns, Search
from longshore.media.sqlite.hosts import host_number

WORKER = WorkerId.new("w")
CLOSED = "closed.test"


def of(host: str, number: int = 1, **fields: Any) -> list[NewJob]:
    return [new_job("page", {"n": n}, key=f"{host} {n} {fields}", run="r", host=host, **fields) for n in range(number)]


def asked(limit: int, without: Iterable[str] = (), **filters: Any) -> Want:
    return Want(worker=WORKER, limit=limit, without_hosts=frozenset(without), **filters)


async def multiply(queue: SqliteQueue, tables: sqlite3.Connection, host: Callable[[int], str], number: int) -> None:
    """Add so many ready jobs to an empty queue, each of the host that is said for its number."""
    await queue.submit(of(host(1)))
    tables.create_function("host_of", 1, host)
    tables.create_function("host_number", 1, host_number)
    tables.execute("BEGIN")
    tables.execute(
        "INSERT INTO content WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
        " SELECT n, 'more ' || n, host_of(n), CAST('{}' AS BLOB), NULL, NULL, 0, NULL FROM n",
        (number,),
    )
    tables.execute(
        "INSERT INTO job SELECT content.job, lane, state, priority, epoch, attempts, max_attempts, holder, not_before,"
        " submitted_at, randomblob(16), host_number(content.host)"
        " FROM content CROSS JOIN job ON job.id = 1 WHERE content.job > 1"
    )
    mixed = tables.execute("SELECT min(host) < max(host) FROM job").fetchone()[0]
    tables.execute("UPDATE lane SET ready = ?1, host = CASE WHEN ?2 THEN NULL ELSE host END", (number, mixed))
    tables.execute("UPDATE sequence SET next_job = ?", (number + 1,))
    tables.execute("COMMIT")


async def effort(queue: SqliteQueue, want: Want, *, claims: int = 3) -> int:
    """Tens of steps of SQLite's machine that claims take; what they claim is put back."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    def claim(db: sqlite3.Connection) -> None:
        db.execute("SAVEPOINT effort")
        turns = HostTurns()
        db.set_progress_handler(count, 10)
        try:
            for _ in range(claims):
                assert len(take(db, Search(want, turns), want.limit, 1).rows) == want.limit
            assert can_take(db, Search(want, turns))
        finally:
            db.set_progress_handler(None, 0)
            db.execute("ROLLBACK TO effort")

    await queue._database.write(claim)
    return steps


@pytest.mark.parametrize("spread", [False, True], ids=["in the same lane", "in lanes of its own"])
async def test_jobs_of_a_closed_host_in_front_cost_a_claim_nothing(
    queue: SqliteQueue, tables: sqlite3.Connection, spread: bool
) -> None:
    await multiply(queue, tables, lambda _: CLOSED, 200_000)
    partition = "other" if spread else ""
    await queue.submit([job for n in range(150) for job in of(f"{n}.test", 3, partition=partition)])
    with_them = await effort(queue, asked(100, [CLOSED]))
    await queue.claim(asked(1, [f"{n}.test" for n in range(150)]))
    tables.execute("UPDATE job SET state = 5 WHERE state = 0 AND host = ?", (host_number(CLOSED),))
    tables.execute("UPDATE lane SET ready = 450 WHERE partition = ?", (partition,))
    tables.execute("UPDATE lane SET ready = 0 WHERE partition <> ?", (partition,))
    assert with_them < 1.05 * await effort(queue, asked(100, [CLOSED]))


async def test_a_claim_does_not_list_all_hosts(queue: SqliteQueue, file: Path, tables: sqlite3.Connection) -> None:
    await multiply(queue, tables, lambda n: f"{n % 20_000}.test", 100_000)
    many = await effort(queue, asked(100))
    tables.execute("UPDATE job SET state = 5 WHERE id % 20000 >= 500")
    assert many < 1.05 * await effort(queue, asked(100))


async def test_where_each_job_has_a_host_of_its_own_many_are_found_at_once(
    queue: SqliteQueue, tables: sqlite3.Connection
) -> None:
    await multiply(queue, tables, lambda n: f"{n}.test", 20_000)
    each = await effort(queue, asked(100))
    tables.execute("UPDATE job SET host = ?", (host_number("one.test"),))
    tables.execute("UPDATE lane SET host = ?", (host_number("one.test"),))
    one = await effort(queue, asked(100))
    assert each < 1.1 * one, (each, one)


async def test_of_a_hundred_hosts_with_many_jobs_few_more_are_read_than_are_taken(
    queue: SqliteQueue, tables: sqlite3.Connection
) -> None:
    await multiply(queue, tables, lambda n: f"{n % 100}.test", 50_000)
    many = await effort(queue, asked(100))
    tables.execute("UPDATE job SET state = 5 WHERE id > 500")
    assert many < 1.3 * await effort(queue, asked(100))


async def test_thousands_of_hosts_can_be_closed(queue: SqliteQueue, tables: sqlite3.Connection) -> None:
    await multiply(queue, tables, lambda n: f"{n % 3000}.test", 9_000)
    closed = [f"{n}.test" for n in range(3000) if n != 1234]
    assert {lease.job.host for lease in await queue.claim(asked(9, closed))} == {"1234.test"}
    assert await queue.claim(asked(9, closed)) == []


@pytest.mark.parametrize("few", [0, 20], ids=["many lanes", "few lanes"])
async def test_claims_for_different_things_do_not_disturb_each_others_turns(
    queue: SqliteQueue, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(wanted_lanes, "FEW", few)
    hosts = sorted((f"{n}.test" for n in range(4)), key=host_number)
    here, there = hosts[::3], hosts[1:3]
    await queue.submit([job for host in here for job in of(host, 9, partition="here")])
    await queue.submit([job for host in there for job in of(host, 9, partition="there")])
    for partition, expected in islice(cycle([("here", here), ("there", there)]), 6):
        want = asked(1, partitions=frozenset({partition}))
        first, second = [await queue.claim(want) for _ in range(2)]
        assert {first[0].job.host, second[0].job.host} == set(expected)


async def test_what_is_urgent_does_not_disturb_the_turns_of_the_rest(queue: SqliteQueue) -> None:
    low, urgent, high = sorted(("a.test", "b.test", "c.test"), key=host_number)
    await queue.submit([*of(low, 9), *of(high, 9)])
    seen = set()
    for n in range(4):
        await queue.submit(of(urgent, 1, priority=-1, partition=str(n)))
        first, second = [(await queue.claim(asked(1)))[0].job.host for _ in range(2)]
        assert first == urgent
        seen.add(second)
    assert seen == {low, high}


async def test_the_leases_of_one_claim_change_from_host_to_host(queue: SqliteQueue) -> None:
    await queue.submit([*of("a.test", 3), *of("b.test", 3), *of("c.test", 1)])
    hosts = [lease.job.host for lease in await queue.claim(asked(7))]
    assert sorted(hosts[:3]) == ["a.test", "b.test", "c.test"]
    assert sorted(hosts[3:5]) == sorted(hosts[5:]) == ["a.test", "b.test"]


async def test_a_host_has_its_turn_though_its_lane_looked_more_urgent_than_it_is(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    await queue.submit([*of("a.test", 1, priority=-1), *of("a.test", 1, priority=3), *of("b.test", 1, priority=3)])
    await queue.submit([*of("c.test", 2, partition="p", priority=-1), *of("c.test", 1, partition="p", priority=3)])
    assert len(await queue.claim(asked(3))) == 3
    assert {lease.job.host for lease in await queue.claim(asked(3))} == {"a.test", "b.test", "c.test"}


async def test_jobs_that_were_taken_over_are_passed_over_by_their_host(queue: SqliteQueue) -> None:
    await queue.take_over([Carried(Job(id="", run="r", kind="page", key="k", payload={}, host=CLOSED))])
    assert await queue.claim(asked(1, [CLOSED])) == []
    assert len(await queue.claim(asked(1))) == 1


async def test_a_job_of_another_host_in_a_lane_that_seems_to_have_one_is_found(queue: SqliteQueue, file: Path) -> None:
    await queue.submit(of("a.test", 2))
    with closing(sqlite3.connect(file)) as older, older:
        older.execute("UPDATE job SET host = 0 WHERE id = 2")
    assert [lease.job.id for lease in await queue.claim(asked(9))] == ["2", "1"]


def test_turns_of_claims_that_are_made_no_more_are_forgotten() -> None:
    turns = HostTurns()
    for n in range(2 * _REMEMBERED):
        turns.end("always", n)
        turns.end(n, n)
    assert turns.last("always") == 2 * _REMEMBERED - 1
    assert turns.last(0) < 0
    assert len(turns._last) == _REMEMBERED


def test_hosts_have_numbers_of_their_own() -> None:
    numbers = {host_number(f"{n}.test") for n in range(10_000)}
    assert len(numbers) == 10_000
    assert min(numbers) > host_number("") == 0
    assert max(numbers) < 2**63
    # Stored in files, so it never changes.
    assert host_number("x.test") == 4724344993132631771
