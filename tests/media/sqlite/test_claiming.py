"""Claims over many lanes: the right order, whatever came between; counters that agree with the jobs they count."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from datetime import timedelta

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.transfer import Carried
from longshore.job import Job, State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.sqlite import SqliteQueue, claim, wanted_lanes
from longshore.media.sqlite.hosts import host_number
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection

WORKER = WorkerId.new("w")


def counters_agree(tables: sqlite3.Connection) -> bool:
    counted = tables.execute("SELECT id, ready, delayed, claimed, completed, failed, cancelled FROM lane").fetchall()
    found = [
        (lane, *(tables.execute("SELECT count(*) FROM job WHERE lane = ? AND state = ?", (lane, s)).fetchone()[0]
                 for s in range(6)))
        for lane, *_ in counted
    ]  # fmt: skip
    return counted == found


def heads_are_lower_bounds(tables: sqlite3.Connection) -> bool:
    wrong = tables.execute(
        "SELECT 1 FROM job JOIN lane ON lane.id = job.lane"
        " WHERE job.state = 0 AND (job.priority, job.id) < (lane.head_priority, lane.head_job)"
    )
    return wrong.fetchone() is None


def hosts_are_right(tables: sqlite3.Connection) -> bool:
    """Every job has the number of its host, and a lane that claims to have one host only has no other."""
    named = tables.execute("SELECT content.host, job.host FROM job JOIN content ON content.job = job.id")
    strangers = tables.execute(
        "SELECT 1 FROM job JOIN lane ON lane.id = job.lane WHERE job.state = 0 AND job.host <> lane.host"
    )
    return strangers.fetchone() is None and all(number == host_number(name) for name, number in named)


def is_in_order(taken: list[Job], claimable: list[Job], limit: int) -> bool:
    """Whether a claim was right to take these of all it could: by priority, hosts in turn, each host's by age."""
    if [job.priority for job in taken] != sorted(job.priority for job in claimable)[:limit]:
        return False
    shares: dict[int, list[tuple[int, int]]] = {}
    for priority, host in {(job.priority, job.host) for job in claimable}:
        there = sorted(int(job.id) for job in claimable if (job.priority, job.host) == (priority, host))
        mine = [int(job.id) for job in taken if (job.priority, job.host) == (priority, host)]
        if mine != there[: len(mine)]:
            return False
        shares.setdefault(priority, []).append((len(mine), len(there)))
    # Whoever has got less than another by more than one has nothing left.
    return all(
        got == had or got + 1 >= max(most for most, _ in hosts) for hosts in shares.values() for got, had in hosts
    )


@pytest.mark.parametrize("few", [0, 20], ids=["many lanes", "few lanes"])
@pytest.mark.parametrize("hosts", [[""], ["", "a.test", "b.test"]], ids=["one host", "several hosts"])
@pytest.mark.parametrize("seed", range(3))
async def test_claims_are_in_order_over_lanes_through_any_history(
    queue: SqliteQueue,
    clock: ManualClock,
    tables: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    hosts: list[str],
    seed: int,
    few: int,
) -> None:
    monkeypatch.setattr(wanted_lanes, "FEW", few)
    chance = random.Random(seed)
    worker = WorkerId.new("w")
    for step in range(60):
        await queue.submit(
            [
                new_job(
                    chance.choice("ab"),
                    {"n": step, "i": i},
                    run=chance.choice("rs"),
                    partition=str(chance.randrange(4)),
                    priority=chance.randrange(3),
                    host=chance.choice(hosts),
                    not_before=clock.now() + chance.randrange(5) if chance.random() < 0.2 else None,
                )
                for i in range(chance.randrange(6))
            ]
        )
        taken_over = [
            Job(
                id="",
                run=chance.choice("rs"),
                kind=chance.choice("ab"),
                key=f"{step} {i}",
                payload={},
                partition=str(chance.randrange(4)),
                priority=chance.randrange(-1, 3),
                host=chance.choice(hosts),
                not_before=clock.now() + chance.randrange(5) if chance.random() < 0.2 else None,
                state=chance.choice(list(State)),
                settled_at=clock.now(),
            )
            for i in range(chance.randrange(3))
        ]
        await queue.take_over([Carried(job) for job in taken_over])
        kinds = frozenset(chance.choice(["a", "b", "ab"])) if chance.random() < 0.5 else None
        want = Want(
            worker=worker,
            limit=chance.randrange(1, 9),
            run=chance.choice(["r", None]),
            kinds=kinds,
            without_hosts=frozenset({"b.test"}) if chance.random() < 0.5 else frozenset(),
        )
        claimable = [
            job
            for job in await queue.jobs(Selection(states=frozenset({State.PENDING})))
            if want.matches(job.run, job.kind, job.partition)
            and job.host not in want.without_hosts
            and (job.not_before or 0) <= clock.now()
        ]
        assert await queue.wait(want, timedelta(0)) == bool(claimable)
        leases = await queue.claim(want)
        assert is_in_order([lease.job for lease in leases], claimable, want.limit)
        outcomes: list[Outcome] = [
            Completed({"ok": 1}, (new_job("b", {"of": step}, priority=-1, host=chance.choice(hosts)),)),
            Failed(Failure("processing", "no"), timedelta(seconds=chance.randrange(3))),
            Snoozed(timedelta(seconds=2)),
            Released(),
        ]
        await queue.settle([Settlement(lease, chance.choice(outcomes)) for lease in leases if chance.random() < 0.8])
        selection = Selection(partitions=frozenset({str(chance.randrange(4))}), run="r")
        match chance.randrange(8):
            case 0:
                await queue.cancel(selection)
            case 1:
                await queue.retry(selection)
            case 2:
                await queue.prune(selection)
            case 3:
                clock.advance(400)
                await queue.reap()
            case _:
                clock.advance(1)
        assert counters_agree(tables)
        assert heads_are_lower_bounds(tables)
        assert hosts_are_right(tables)


async def test_a_claim_looks_only_into_lanes_that_can_matter(queue: Queue, tables: sqlite3.Connection) -> None:
    await queue.submit([new_job("page", {"n": n}, run="r", partition=str(n)) for n in range(300)])
    # The first claim finds out where each lane begins.
    await queue.claim(Want(worker=WORKER, limit=10))
    # A job in a lane that is looked into would be noticed, for it has become the most urgent one of all.
    tables.execute("UPDATE job SET priority = -1 WHERE id = 100")
    leases = await queue.claim(Want(worker=WORKER, limit=10))
    assert [lease.job.payload["n"] for lease in leases] == list(range(10, 20))


async def test_a_bound_that_names_the_place_of_another_lanes_job_is_no_end(
    queue: Queue, tables: sqlite3.Connection
) -> None:
    await queue.submit([new_job("page", {"n": n}, run="r", partition=str(n)) for n in range(4)])
    tables.execute("UPDATE lane SET head_priority = 0, head_job = 1")
    leases = await asyncio.wait_for(queue.claim(Want(worker=WORKER, limit=4)), 30)
    assert [lease.job.payload["n"] for lease in leases] == [0, 1, 2, 3]


async def test_a_lane_looked_into_in_vain_is_not_looked_into_again(queue: Queue, tables: sqlite3.Connection) -> None:
    await queue.submit([new_job("old", {"n": n}, run="r") for n in range(3)])
    await queue.submit([new_job("new", {"n": n}, run="r") for n in range(3)])
    await queue.submit([new_job("old", {"n": 3}, run="r")])
    await queue.cancel(Selection(ids=frozenset({"1", "2", "3"})))
    assert [lease.job.kind for lease in await queue.claim(Want(worker=WORKER, limit=1))] == ["new"]
    assert tables.execute("SELECT head_job FROM lane WHERE kind = 'old'").fetchone() == (7,)


async def test_more_jobs_due_at_once_than_fit_one_transaction_still_come_in_order(
    queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "PROMOTED_AT_ONCE", 3)
    soon = clock.now() + 5
    await queue.submit([new_job("page", {"n": n}, run="r", priority=-n, not_before=soon + n / 100) for n in range(10)])
    clock.advance(6)
    leases = await queue.claim(Want(worker=WORKER, limit=2))
    assert [lease.job.payload["n"] for lease in leases] == [9, 8]


async def test_an_id_is_never_given_twice_even_after_a_prune(queue: Queue) -> None:
    await queue.submit([new_job("page", {}, run="r")])
    [stale] = await queue.claim(Want(worker=WORKER))
    await queue.cancel(Selection())
    await queue.prune(Selection())
    await queue.submit([new_job("page", {}, run="r")])
    [fresh] = await queue.claim(Want(worker=WORKER))
    assert fresh.job.id != stale.job.id
    assert await queue.settle([Settlement(stale, Completed())]) == [False]


async def test_a_worker_reaped_just_before_it_claims_leaves_no_orphan(queue: Queue, clock: ManualClock) -> None:
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(2)])
    lease = timedelta(seconds=10)
    await queue.claim(Want(worker=WORKER, lease=lease))
    clock.advance(11)
    assert (await queue.reap()).returned == 1
    [late] = await queue.claim(Want(worker=WORKER, lease=lease))
    assert [held.job_id for held in await queue.renew(WORKER, lease)] == [late.job.id]
    clock.advance(11)
    assert (await queue.reap()).returned == 1


async def test_workers_that_are_gone_are_forgotten(
    queue: Queue, clock: ManualClock, tables: sqlite3.Connection
) -> None:
    for _ in range(20):
        await queue.renew(WorkerId.new("w"), timedelta(seconds=1))
    clock.advance(2)
    await queue.reap()
    assert tables.execute("SELECT count(*) FROM worker").fetchone() == (0,)


async def test_nothing_is_left_behind_by_a_prune_of_everything(queue: Queue, tables: sqlite3.Connection) -> None:
    await queue.submit([new_job("page", {"n": n}, run="r", partition=str(n % 3)) for n in range(9)])
    leases = await queue.claim(Want(worker=WORKER, limit=6))
    done = [Settlement(lease, Completed({"ok": 1})) for lease in leases[:3]]
    failed = [Settlement(lease, Failed(Failure("processing", "no", retryable=False))) for lease in leases[3:]]
    await queue.settle(done + failed)
    await queue.cancel(Selection())
    assert await queue.prune(Selection()) == 9
    for table in ("job", "content", "settlement", "failure", "lane"):
        assert tables.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
