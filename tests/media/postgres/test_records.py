"""Records in PostgreSQL: seen once, only when settled, and changed by no older attempt."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from longshore import new_job, open_queue
from longshore.errors import QueueError, QueueUnavailableError
from longshore.extensions.record_store import RefusedRecordsError
from longshore.job import Job, State
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.location import locate
from longshore.media.postgres.records import PostgresRecords
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.runs.records.run_records import mark_settled
from longshore.scrape.records import Emission, Emitted


@pytest.fixture
async def sink(url: str) -> AsyncIterator[PostgresRecords]:
    opened = await PostgresRecords.open(url)
    yield opened
    await opened.close()


def job(number: int = 1, *, epoch: int = 1, job_id: str | None = None) -> Job:
    return Job(id=job_id or str(number), run="r", kind="page", key=f"k{number}", payload={}, epoch=epoch)


def emitted(*titles: str) -> Emitted:
    emission = Emission()
    for title in titles:
        emission.emit({"title": title}, "item")
    return emission.emitted() or Emitted()


async def seen(url: str) -> list[tuple[str, int, str, Any]]:
    location = locate(url)
    connection = await asyncpg.connect(location.dsn)
    try:
        rows = await connection.fetch(f"select key, n, kind, data from {location.quoted_schema}.record order by key, n")
        return [(row[0], row[1], row[2], msgspec.json.decode(row[3])["title"]) for row in rows]
    finally:
        await connection.close()


async def test_records_are_seen_when_their_attempt_is_settled(url: str, sink: PostgresRecords) -> None:
    sink.put(job(1), emitted("a", "b"))
    sink.put(job(2), emitted("c"))
    await sink.flush()
    assert await seen(url) == []
    sink.settled("1", 1)
    await sink.flush()
    assert await seen(url) == [("k1", 0, "item", "a"), ("k1", 1, "item", "b")]


async def test_an_attempt_that_cannot_be_stored_is_named_and_spoils_no_other(url: str, sink: PostgresRecords) -> None:
    unfit = {2: "nul\0key", 5: "long" * 1000_000}
    for number in range(7):
        key = unfit.get(number, f"k{number}")
        sink.put(Job(id=str(number), run="r", kind="page", key=key, payload={}, epoch=3), emitted("a"))
        sink.settled(str(number), 3)
    with pytest.raises(RefusedRecordsError, match="NUL") as caught:
        await sink.flush()
    assert sorted(caught.value.causes) == [("2", 3), ("5", 3)]
    await sink.flush()  # they are dropped
    assert [key for key, *_ in await seen(url)] == ["k0", "k1", "k3", "k4", "k6"]


async def test_to_write_the_same_again_changes_nothing(url: str, sink: PostgresRecords) -> None:
    for _ in range(2):
        sink.put(job(), emitted("a"))
        sink.put(job(), emitted("a"))
        sink.settled("1", 1)
        await sink.flush()
    assert await seen(url) == [("k1", 0, "item", "a")]


async def test_an_older_attempt_changes_nothing(url: str, sink: PostgresRecords) -> None:
    """F2."""
    sink.put(job(epoch=2), emitted("fresh"))
    await sink.flush()
    sink.settled("1", 2)
    sink.put(job(epoch=1), emitted("stale", "stale too"))
    sink.settled("1", 1)
    await sink.flush()
    assert await seen(url) == [("k1", 0, "item", "fresh")]


async def test_a_queue_that_was_restored_gets_the_records_of_its_attempts(url: str, sink: PostgresRecords) -> None:
    """Its attempts have lower epochs than those that the restore has taken back; only the queue knows which count."""
    for epoch, title in ((2, "taken back"), (1, "after the restore")):
        sink.put(job(epoch=epoch), emitted(title))
        sink.settled("1", epoch)
        await sink.flush()
    read = [each async for each in sink.records("r", None, lambda attempt: attempt.epoch == 1)]
    assert [each.data["title"] for each in read] == ["after the restore"]


async def test_a_later_attempt_takes_the_place_of_an_unsettled_one_whole(url: str, sink: PostgresRecords) -> None:
    sink.put(job(epoch=1), emitted("1", "2", "3"))
    await sink.flush()
    sink.put(job(epoch=2), emitted("4"))
    sink.settled("1", 2)
    await sink.flush()
    assert await seen(url) == [("k1", 0, "item", "4")]


async def test_a_later_parse_takes_the_place_and_stays_settled(url: str, sink: PostgresRecords) -> None:
    sink.put(job(), emitted("wrong"))
    sink.settled("1", 1)
    await sink.flush()
    later = await PostgresRecords.open(url, revision=1)
    later.put(job(), emitted("right"))
    await later.close()
    assert await seen(url) == [("k1", 0, "item", "right")]


async def test_a_job_that_was_removed_and_submitted_again_has_the_records_of_its_later_life(
    url: str, sink: PostgresRecords
) -> None:
    for job_id, epoch, title in (("1", 9, "before"), ("2", 1, "after")):
        sink.put(job(epoch=epoch, job_id=job_id), emitted(title))
        sink.settled(job_id, epoch)
        await sink.flush()
    assert await seen(url) == [("k1", 0, "item", "after")]


async def test_text_that_a_database_would_rather_not_have_is_kept(url: str, sink: PostgresRecords) -> None:
    sink.put(job(), emitted("null \0 byte", "Ünïcödé 🎈"))
    sink.settled("1", 1)
    await sink.flush()
    assert [title for *_, title in await seen(url)] == ["null \0 byte", "Ünïcödé 🎈"]


async def test_what_could_not_be_written_waits_for_the_next_flush(
    url: str, sink: PostgresRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_given: Any, **_named: Any) -> Any:
        raise QueueUnavailableError("gone")

    sink.put(job(), emitted("a"))
    sink.settled("1", 1)
    with monkeypatch.context() as patch:
        patch.setattr(sink._connections, "fetch", gone)
        with pytest.raises(QueueUnavailableError):
            await sink.flush()
    await sink.flush()
    assert len(await seen(url)) == 1


async def test_many_open_it_at_once_and_beside_the_queue(url: str) -> None:
    opened = await asyncio.gather(*(PostgresRecords.open(url) for _ in range(5)))
    queue = await PostgresQueue.open(url, clock=None)  # type: ignore[arg-type]
    await queue.close()
    for each in opened:
        await each.close()


async def test_attempts_whose_worker_died_are_marked_as_the_queue_says(
    queue: PostgresQueue, url: str, sink: PostgresRecords
) -> None:
    await queue.submit([new_job("page", {}, run="r", key=f"k{n}") for n in range(2)])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=2))
    for lease in leases:
        sink.put(lease.job, emitted(lease.job.key))
    await sink.flush()
    assert await queue.settle([Settlement(leases[0], Completed())]) == [True]
    assert await mark_settled(queue, sink) == 1
    assert await seen(url) == [(leases[0].job.key, 0, "item", leases[0].job.key)]


async def test_a_database_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(QueueError, match=r"127\.0\.0\.1"):
        await PostgresRecords.open("postgresql://127.0.0.1:9/none")


BLOCKING = """
import time
from longshore import handler

@handler("page")
async def page(job, kit):
    kit.emit({"title": str(job.payload["number"])})

@handler("blocks", timeout=0.5, retries=0)
async def blocks(job):
    time.sleep(3600)
"""


async def test_a_worker_whose_event_loop_is_blocked_keeps_the_records_of_what_it_settles(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "pages.py").write_text(BLOCKING)
    queue = await open_queue(f"sqlite:///{tmp_path}/queue.db")
    await queue.submit([*(new_job("page", {"number": number}) for number in range(10)), new_job("blocks", {})])
    command = (sys.executable, "-m", "longshore", "work", "pages.py", "--max-work", "11")
    names = {"LONGSHORE_QUEUE": f"sqlite:///{tmp_path}/queue.db", "LONGSHORE_RECORDS_DATABASE": url}
    with (tmp_path / "log").open("wb") as log:
        worker = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=os.environ | names, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            code = await worker.wait()
        finally:
            with suppress(ProcessLookupError):
                worker.kill()
    said = (tmp_path / "log").read_text()
    assert code == 3, said
    completed = {job.key for job in await queue.jobs(Selection(states=frozenset({State.COMPLETED})))}
    assert len(completed) == 10, said
    records = await PostgresRecords.open(url)
    await mark_settled(queue, records)
    await records.close()
    await queue.close()
    assert {key for key, *_ in await seen(url)} == completed


async def test_a_table_of_an_earlier_version_is_upgraded_and_its_records_stay(url: str) -> None:
    location = locate(url)
    connection = await asyncpg.connect(location.dsn)
    await connection.execute(
        f"""create schema {location.quoted_schema}; set search_path = {location.quoted_schema};
        create table emitted (
            run text not null, kind text not null, key text not null, job text not null, epoch bigint not null,
            revision int not null, settled boolean not null default false, kinds text[] not null, data json[] not null,
            rejected json not null, written_at timestamptz not null default clock_timestamp(),
            primary key (run, kind, key, job));
        create view record as select e.run, e.kind as job_kind, e.key, e.epoch, (r.n - 1)::int as n, r.kind, r.data
            from emitted e, unnest(e.kinds, e.data) with ordinality as r (kind, data, n) where e.settled;
        insert into emitted values
            ('r', 'page', 'k1', '1', 1, 0, true, '{{item}}', array['{{"title": "old"}}'::json], '[]')
        """
    )
    await connection.close()
    for _ in range(2):
        store = await PostgresRecords.open(url)
        store.put(msgspec.structs.replace(job(1), queue="q"), emitted("new"))
        store.settled("1", 1)
        await store.close()
    store = await PostgresRecords.open(url)
    assert {(each.queue, each.marked) async for each in store.attempts("r")} == {("", True), ("q", True)}
    await store.close()
    assert sorted(title for *_, title in await seen(url)) == ["new", "old"]
