"""Records are durable before their attempt is settled as completed, from every caller and in every event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError, UsageError
from longshore.extensions.record_store import RefusedRecordsError
from longshore.job import Job, State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.scrape.records import Emission, Emitted, RecordReader, RecordWriter, SegmentSink
from longshore.worker.kit.attempt_records import AttemptRecords
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.wrappers.worker_queue import WorkerQueue


def emitted(number: int) -> Emitted:
    emission = Emission()
    emission.emit({"number": number}, "item")
    found = emission.emitted()
    assert found is not None
    return found


class Database:
    """Records in memory. Like a database connection, each store can be used in the event loop that opened it only."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], Any] = {}
        self.marked: set[tuple[str, int]] = set()
        self.answers = True
        self.refuses: set[str] = set()
        """The ids of jobs whose records it cannot store."""

    async def open(self, url: str) -> Store:
        assert url == "postgresql://records"
        if not self.answers:
            raise QueueUnavailableError("the database does not answer")
        return Store(self)


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], Any] = {}
        self._marks: set[tuple[str, int]] = set()

    def put(self, job: Job, emitted: Emitted) -> None:
        self._waiting[job.id, job.epoch] = emitted

    def settled(self, job_id: str, epoch: int) -> None:
        self._marks.add((job_id, epoch))

    async def flush(self) -> None:
        assert asyncio.get_running_loop() is self._loop
        if not self._database.answers:
            raise QueueUnavailableError("the database does not answer")
        refused = {name: ValueError("a NUL") for name in self._waiting if name[0] in self._database.refuses}
        for name in refused:
            del self._waiting[name]
        self._database.kept |= self._waiting
        self._database.marked |= self._marks
        if refused:
            raise RefusedRecordsError(refused)

    async def close(self) -> None:
        await self.flush()


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    made = Database()
    monkeypatch.setattr("longshore.worker.kit.attempt_records.open_records", made.open)
    return made


@pytest.fixture
async def queue() -> AsyncIterator[MemoryQueue]:
    made = MemoryQueue(ManualClock())
    await made.submit([new_job("page", {"number": number}) for number in range(3)])
    yield made


async def claimed(queue: MemoryQueue) -> list[Lease]:
    return await queue.claim(Want(worker=WorkerId.new("w"), limit=3))


def completed(leases: list[Lease]) -> list[Settlement]:
    return [Settlement(lease, Completed(None)) for lease in leases]


async def states(queue: MemoryQueue) -> list[State]:
    return [job.state for job in await queue.jobs(Selection())]


async def test_nothing_is_settled_while_records_cannot_be_kept(queue: MemoryQueue, database: Database) -> None:
    records = AttemptRecords(Path("unused"), "w/1")
    await records.open_database("postgresql://records")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    records.take(leases[0].job, emitted(0))
    database.answers = False
    with pytest.raises(QueueUnavailableError):
        await writer.settle(completed(leases))
    assert await states(queue) == [State.CLAIMED] * 3
    database.answers = True
    assert (await writer.settle(completed(leases))).accepted == [True] * 3
    assert set(database.kept) == {(leases[0].job.id, 1)}
    assert records.unkept == frozenset()


async def test_at_the_end_only_jobs_whose_records_cannot_be_kept_are_given_back(
    queue: MemoryQueue, database: Database
) -> None:
    records = AttemptRecords(Path("unused"), "w/1")
    await records.open_database("postgresql://records")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    records.take(leases[0].job, emitted(0))
    database.answers = False
    await writer.settle_last(completed(leases))
    assert await states(queue) == [State.PENDING, State.COMPLETED, State.COMPLETED]
    assert (await queue.jobs(Selection()))[0].attempts == 0
    assert database.kept == {}


async def test_records_that_the_sink_refuses_fail_their_own_job_only(queue: MemoryQueue, database: Database) -> None:
    records = AttemptRecords(Path("unused"), "w/1")
    await records.open_database("postgresql://records")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    for number, lease in enumerate(leases):
        records.take(lease.job, emitted(number))
    database.refuses = {leases[1].job.id}
    # The flush for one batch writes the records of all; the refused attempt may be settled in a later batch.
    assert (await writer.settle(completed(leases[:1]))).accepted == [True]
    written = await writer.settle(completed(leases[1:]))
    assert written.accepted == [True, True]
    writer.settled(*written)
    assert await states(queue) == [State.COMPLETED, State.FAILED, State.COMPLETED]
    failure = (await queue.jobs(Selection()))[1].failure
    assert failure is not None
    assert failure.message == "The records of this attempt cannot be stored: a NUL"
    assert (records.refused, records.unkept) == ({}, frozenset())


@pytest.mark.parametrize("thread", [True, False])
async def test_at_the_end_too_records_that_the_sink_refuses_fail_their_own_job_only(
    queue: MemoryQueue, database: Database, *, thread: bool
) -> None:
    records = AttemptRecords(Path("unused"), "w/1")
    await records.open_database("postgresql://records")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    for number, lease in enumerate(leases):
        records.take(lease.job, emitted(number))
    database.refuses = {leases[1].job.id}
    if thread:
        await asyncio.to_thread(lambda: asyncio.run(writer.settle_last(completed(leases))))
    else:
        await writer.settle_last(completed(leases))
    assert await states(queue) == [State.COMPLETED, State.FAILED, State.COMPLETED]


async def test_at_the_end_an_outcome_that_cannot_be_stored_spoils_no_other(
    queue: MemoryQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await claimed(queue)
    settle = queue.settle

    async def picky(settlements: Sequence[Settlement]) -> list[bool]:
        if any(isinstance(each.outcome, Completed) and each.lease.job.id == leases[1].job.id for each in settlements):
            raise UsageError("it cannot store this")
        return await settle(settlements)

    monkeypatch.setattr(queue, "settle", picky)
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), AttemptRecords(tmp_path, "w/1"))
    await writer.settle_last(completed(leases))
    assert await states(queue) == [State.COMPLETED, State.FAILED, State.COMPLETED]


async def test_another_event_loop_keeps_records_over_a_connection_of_its_own(
    queue: MemoryQueue, database: Database
) -> None:
    records = AttemptRecords(Path("unused"), "w/1")
    await records.open_database("postgresql://records")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    for number, lease in enumerate(leases):
        records.take(lease.job, emitted(number))
    # As the watchdog does it: this event loop is blocked meanwhile.
    watchdog = threading.Thread(target=lambda: asyncio.run(writer.settle_last(completed(leases))))
    watchdog.start()
    watchdog.join()
    assert await states(queue) == [State.COMPLETED] * 3
    assert set(database.kept) == database.marked == {(lease.job.id, 1) for lease in leases}


async def test_another_event_loop_writes_to_the_same_files(queue: MemoryQueue, tmp_path: Path) -> None:
    records = AttemptRecords(tmp_path, "w/1")
    writer = SettlementWriter(WorkerQueue(queue, ManualClock()), records)
    leases = await claimed(queue)
    for number, lease in enumerate(leases):
        records.take(lease.job, emitted(number))
    watchdog = threading.Thread(target=lambda: asyncio.run(writer.settle_last(completed(leases))))
    watchdog.start()
    watchdog.join()
    assert [record.data for record in RecordReader(tmp_path / "records").records()] == [{"number": n} for n in range(3)]


async def test_a_flush_waits_for_what_another_flush_is_writing(queue: MemoryQueue, tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow(RecordWriter):
        def _append(self, lines: list[bytes], marks: list[tuple[str, int]]) -> None:
            begun.set()
            go.wait(20)
            super()._append(lines, marks)

    writer = Slow(tmp_path, "w/1")
    sink = SegmentSink(writer)
    [lease, *_] = await claimed(queue)
    sink.put(lease.job, emitted(1))
    first = asyncio.create_task(sink.flush())
    await asyncio.to_thread(begun.wait, 20)
    second = asyncio.create_task(sink.flush())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done()
    go.set()
    await first
    await second
    assert len(RecordReader(tmp_path).unmarked) == 1
