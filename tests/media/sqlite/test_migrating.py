"""A queue file of an earlier Longshore opens, and goes on where it stood."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Job, JobName, State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite import SqliteQueue, schema
from longshore.media.sqlite.hosts import host_number
from longshore.media.sqlite.statements import migrations
from longshore.media.sqlite.submit import identities
from longshore.outcome import Completed, Settlement
from longshore.queue import Count, Reaped, Selection, totals

LEASE = timedelta(seconds=60)
ANNA = WorkerId("anna", "anna/1")
WHY = Failure("processing", "it broke")
HOSTS = ("x.test", "y.test", "")
STORED = {0: "ready", 1: "delayed", 2: "claimed", 3: "completed", 4: "failed", 5: "cancelled"}


@pytest.fixture
def first_version(file: Path, clock: ManualClock) -> Path:
    """A file as the first version left it: a job in each state, one of them in the hands of a worker that lives."""
    now = clock.now()
    jobs = [new_job("page", {"n": name}, run="r", key=name) for name in STORED.values()]
    with closing(sqlite3.connect(file)) as db:
        db.executescript(migrations()[0])
        db.execute("INSERT INTO lane VALUES (1, 'r', 'page', '', 1, 1, 1, 1, 1, 1, 0, 1)")
        db.execute("INSERT INTO worker VALUES (1, ?, ?, ?)", (ANNA.label, ANNA.incarnation, now + 60))
        for state, (job, identity) in enumerate(zip(jobs, identities(jobs), strict=True)):
            number, tried = state + 1, state in {2, 3, 4}
            db.execute(
                "INSERT INTO job VALUES (?, 1, ?, 0, ?, ?, 4, ?, ?, ?, ?)",
                (number, state, tried, state in {3, 4}, 1 if state == 2 else None, None, now, identity),
            )
            payload = msgspec.json.encode(job.payload)
            db.execute("INSERT INTO content VALUES (?, ?, ?, ?)", (number, job.key, HOSTS[state % 3], payload))
            if state >= 3:
                result = b'"well"' if state == 3 else None
                db.execute("INSERT INTO settlement VALUES (?, ?, 1.5, 'anna', ?)", (number, now, result))
        db.execute("UPDATE job SET not_before = ? WHERE state = 1", (now + 30,))
        db.execute("INSERT INTO failure VALUES (5, 1, 'anna', ?, 1.5, ?)", (now, msgspec.json.encode(WHY)))
        db.execute("UPDATE sequence SET next_job = 7")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    return file


@pytest.fixture
async def old(first_version: Path, clock: ManualClock) -> AsyncIterator[SqliteQueue]:
    """That file, opened."""
    queue = await open_queue(f"sqlite:///{first_version}", clock=clock)
    assert isinstance(queue, SqliteQueue)
    yield queue
    await queue.close()


async def test_everything_is_still_there(old: SqliteQueue, first_version: Path) -> None:
    found = {job.key: job for job in await old.jobs(Selection())}
    assert list(found) == list(STORED.values())
    assert [job.state.value for job in found.values()][2:] == ["claimed", "completed", "failed", "cancelled"]
    assert {(job.parent, job.depth) for job in found.values()} == {(None, 0)}
    assert (found["completed"].result, found["completed"].seconds, found["failed"].failure) == ("well", 1.5, WHY)
    assert [entry.failure for entry in await old.history(found["failed"].id)] == [WHY]
    assert await old.stats() == [
        Count(run="r", kind="page", pending=2, claimed=1, completed=1, failed=1, cancelled=1)
    ]  # fmt: skip
    await old.close()
    with closing(sqlite3.connect(first_version)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


async def test_a_migrated_file_has_the_tables_of_a_new_one(old: SqliteQueue, first_version: Path) -> None:
    fresh = first_version.with_name("fresh.db")
    await (await open_queue(f"sqlite:///{fresh}")).close()
    await old.close()
    shapes = []
    for path in (first_version, fresh):
        with closing(sqlite3.connect(path)) as db:
            shapes.append(db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall())
    assert shapes[0] == shapes[1]


async def test_a_worker_goes_on_with_what_it_held_before(old: SqliteQueue) -> None:
    [held] = await old.renew(ANNA, LEASE)
    [job] = await old.jobs(Selection(ids=frozenset({held.job_id})))
    follow_on = new_job("page", {"n": "next"}, key="next")
    assert await old.settle([Settlement(Lease(job, ANNA, 0.0), Completed("well", (follow_on,)))]) == [True]
    found = {lease.job.key: lease.job for lease in await old.claim(Want(worker=ANNA, limit=9))}
    assert (found["next"].parent, found["next"].depth) == (JobName("page", "claimed"), 1)


async def test_a_worker_that_never_comes_back_loses_what_it_held(old: SqliteQueue, clock: ManualClock) -> None:
    assert await old.reap() == Reaped()
    clock.advance(61)
    assert await old.reap() == Reaped(returned=1)
    leases = await old.claim(Want(worker=ANNA, limit=9))
    assert {lease.job.key: lease.epoch for lease in leases} == {"ready": 1, "delayed": 1, "claimed": 2}


async def test_jobs_are_known_by_their_hosts(old: SqliteQueue, clock: ManualClock, first_version: Path) -> None:
    with closing(sqlite3.connect(first_version)) as db:
        assert db.execute("SELECT host FROM lane").fetchone() == (host_number("x.test"),)
        assert db.execute("SELECT host FROM job ORDER BY id").fetchall() == [(host_number(h),) for h in HOSTS * 2]
    clock.advance(61)
    await old.reap()
    await old.retry(Selection())
    leases = [await old.claim(Want(worker=ANNA, limit=9, without_hosts=frozenset(set(HOSTS) - {h}))) for h in HOSTS]
    assert [[lease.job.key for lease in each] for each in leases] == [
        ["ready"],
        ["delayed", "failed"],
        ["claimed", "cancelled"],
    ]


async def test_a_queue_that_has_several_hosts_comes_over(first_version: Path, clock: ManualClock) -> None:
    with closing(sqlite3.connect(first_version)) as db, db:
        db.execute("UPDATE job SET state = 0")
        db.execute("UPDATE lane SET ready = 6, delayed = 0, claimed = 0, completed = 0, failed = 0, cancelled = 0")
    queue = await open_queue(f"sqlite:///{first_version}", clock=clock)
    leases = await queue.claim(Want(worker=ANNA, limit=9, without_hosts=frozenset({"y.test"})))
    assert sorted(lease.job.host for lease in leases) == ["", "", "x.test", "x.test"]
    await queue.close()


async def test_what_is_new_works_on_what_is_old(old: SqliteQueue) -> None:
    assert len(await old.register(ANNA, LEASE, WorkerInfo(machine="working"))) == 1
    assert await old.present_workers() == [PresentWorker(ANNA, WorkerInfo(machine="working"))]
    assert (await old.swap_entries("shelf", [StateEntry("a", ABSENT, 1)])) != [None]
    assert (await old.read_entries("shelf")).get("a").value == 1
    known, unknown = (Job(id="", run="r", kind="page", key=key, payload={}) for key in ("ready", "other"))
    assert (await old.take_over([Carried(known), Carried(unknown)])).new == 1
    assert await old.retry(Selection(states=frozenset({State.FAILED}))) == 1
    assert totals(await old.stats()).pending == 4


async def test_a_process_of_the_first_version_that_is_still_running_does_no_harm(
    old: SqliteQueue, first_version: Path, clock: ManualClock
) -> None:
    await old.register(ANNA, LEASE, WorkerInfo(slots=1))
    with closing(sqlite3.connect(first_version, isolation_level=None)) as db:
        # How it forgets a silent worker, and how it lets the next one in, which gets the same number.
        db.execute("UPDATE job SET state = 0, holder = NULL WHERE state = 2")
        db.execute("UPDATE lane SET ready = ready + 1, claimed = claimed - 1")
        db.execute("DELETE FROM worker WHERE id = 1")
        db.execute(
            "INSERT INTO worker (label, incarnation, deadline) VALUES ('bert', 'bert/1', ?)", (clock.now() + 60,)
        )
        assert db.execute("SELECT id FROM worker").fetchall() == [(1,)]
    assert await old.present_workers() == []
    clock.advance(61)
    assert await old.reap() == Reaped()


async def test_a_queue_of_an_earlier_version_gets_a_uuid_that_stays(old: SqliteQueue, first_version: Path) -> None:
    uuids = {job.queue for job in await old.jobs(Selection())}
    again = await open_queue(f"sqlite:///{first_version}")
    uuids |= {job.queue for job in await again.jobs(Selection())}
    await again.close()
    assert {len(uuid) for uuid in uuids} == {32}
    assert len(uuids) == 1
