"""Records belong to the attempt that completed a job of the queue that is read, whatever else lies beside them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from tests.services.postgres import PostgresServer

from longshore import new_job
from longshore.clock import ManualClock
from longshore.extensions.record_store import RecordStore
from longshore.job import State
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue, open_records
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection
from longshore.runs.records.prune_records import prune_with_records
from longshore.runs.records.run_records import RecordsPlace, RunRecords
from longshore.runs.transfer.copy_jobs import copy
from longshore.runs.transfer.move_jobs import Move
from longshore.runs.transfer.offline_checkout import CheckoutFile, Terms, check_out, prepare_checkout
from longshore.runs.transfer.offline_merge import merge
from longshore.scrape.records import Emission, Emitted, RecordReader, RecordSink, RecordWriter, SegmentSink
from longshore.settings import Settings, resolve
from longshore.wrappers.worker_queue import WorkerQueue

RUN = "r"
HOLD = timedelta(hours=1)
_numbers = count()


class Place(Protocol):
    """A place for records."""

    async def sink(self) -> RecordSink: ...

    def of(self, queue: Queue, job: str | None = None) -> RunRecords: ...


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    async def sink(self) -> RecordSink:
        return SegmentSink(RecordWriter(self.path, WorkerId.new("w").incarnation))

    def of(self, queue: Queue, job: str | None = None) -> RunRecords:
        return RecordsPlace(self.path).records(queue, RUN, job=job)


class Database:
    def __init__(self, url: str) -> None:
        self.url = url

    async def sink(self) -> RecordStore:
        return await open_records(self.url)

    def of(self, queue: Queue, job: str | None = None) -> RunRecords:
        return RecordsPlace(Path(), self.url).records(queue, RUN, job=job)


class Site:
    """Queues of one medium that share a place for records."""

    def __init__(self, folder: Path, medium: str, place: Place, stack: AsyncExitStack) -> None:
        self.folder = folder
        self._medium = medium
        self.place = place
        self._stack = stack
        self.clock = ManualClock()

    async def queue(self, name: str) -> Queue:
        url = f"sqlite:///{self.folder}/{name}.db" if self._medium == "sqlite" else f"dir://{self.folder}/{name}"
        queue = await open_queue(url, clock=self.clock)
        self._stack.push_async_callback(queue.close)
        return queue

    async def submit(self, queue: Queue, *keys: str) -> None:
        await queue.submit([new_job("page", {"key": key}, run=RUN, key=key) for key in keys])

    async def claim(self, queue: Queue, lease: timedelta = HOLD) -> list[Lease]:
        await queue.reap()
        return await queue.claim(Want(worker=WorkerId.new("w"), limit=100, lease=lease))

    async def write(self, lease: Lease, by: str, *, settle: Queue | None = None, mark: bool = True) -> None:
        """Write a record of an attempt as a worker does; without a mark, as one that dies before it can write it."""
        sink = await self.place.sink()
        emission = Emission()
        emission.emit({"by": by})
        emitted = emission.emitted()
        assert emitted is not None
        sink.put(lease.job, emitted)
        await sink.flush()
        if settle is not None:
            assert await settle.settle([Settlement(lease, Completed({"by": by}))]) == [True]
            if mark:
                sink.settled(lease.job.id, lease.epoch)
        await sink.close()

    async def work(self, queue: Queue, by: str, *, mark: bool = True) -> None:
        """Work on all jobs of the queue; `by` is in each record and each result."""
        for lease in await self.claim(queue):
            await self.write(lease, by, settle=queue, mark=mark)

    async def records(self, queue: Queue) -> dict[str, str]:
        """Return who emitted the record of each job, as an export of the run from this queue has it."""
        records = self.place.of(queue)
        found = [(record.key, record.data["by"]) async for record in records.records()]
        assert len(found) == len(dict(found)) == sum((await records.tally()).kept.values())
        return dict(found)

    async def results(self, queue: Queue) -> dict[str, Any]:
        done = await queue.jobs(Selection(states=frozenset({State.COMPLETED})))
        return {job.key: job.result["by"] for job in done if isinstance(job.result, dict)}


@pytest.fixture(params=["sqlite, folder", "directory, folder", "sqlite, database"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    medium, _, kind = request.param.partition(", ")
    place: Place = Folder(tmp_path / "records")
    if kind == "database":
        server: PostgresServer = request.getfixturevalue("server")
        place = Database(f"{server.url}?schema=named_{next(_numbers)}")
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, medium, place, stack)


def quiet(_: int) -> None:
    return None


async def test_the_records_of_one_job_are_only_its_own(site: Site) -> None:
    queue = await site.queue("q")
    await site.submit(queue, "a", "b", "c")
    await site.work(queue, "first")
    jobs = await queue.jobs(Selection())
    for job in jobs:
        assert [record.key async for record in site.place.of(queue, job.id).records()] == [job.key]


async def test_two_queues_do_not_mix_their_records(site: Site) -> None:
    for name in ("first", "second"):
        queue = await site.queue(name)
        await site.submit(queue, "a", "b")
        await site.work(queue, name)
    for name in ("first", "second"):
        assert await site.records(await site.queue(name)) == {"a": name, "b": name}


async def test_a_trial_copy_leaves_the_records_of_the_real_run_alone(site: Site) -> None:
    real, trial = await site.queue("real"), await site.queue("trial")
    await site.submit(real, "a", "b")
    await copy(real, trial, RUN, progress=quiet)
    await site.work(real, "real")
    await site.work(trial, "trial")
    assert await site.records(real) == {"a": "real", "b": "real"}
    assert await site.records(trial) == {"a": "trial", "b": "trial"}


@pytest.mark.parametrize("mark", [True, False])
async def test_a_copied_and_a_moved_run_have_all_their_records(site: Site, mark: bool) -> None:
    source, copied, moved = [await site.queue(name) for name in ("source", "copied", "moved")]
    await source.submit([new_job("page", {}, run="other", key=f"{n}") for n in range(3)])
    await source.cancel(Selection(run="other"))
    await site.submit(source, "a", "b")
    await site.work(source, "source", mark=mark)
    await copy(source, copied, RUN, progress=quiet)
    await Move(WorkerQueue(copied, site.clock), moved, RUN, route=("copied", "moved")).carry_out(quiet)
    expected = {"a": "source", "b": "source"}
    assert await site.records(source) == await site.records(moved) == expected
    assert await copied.jobs(Selection()) == []


async def test_a_job_that_was_held_while_it_was_copied_has_the_records_of_each_queue(site: Site) -> None:
    """The copy completes it without a record; the source completes it under the lease from before."""
    source, trial = await site.queue("source"), await site.queue("trial")
    await site.submit(source, "a")
    (lease,) = await site.claim(source)
    await copy(source, trial, RUN, progress=quiet)
    (theirs,) = await site.claim(trial)
    await trial.settle([Settlement(theirs, Completed({"by": "trial"}))])
    await site.write(lease, "source", settle=source)
    assert await site.records(source) == {"a": "source"}
    assert await site.records(trial) == {}


async def test_a_refused_merge_leaves_the_records_that_count(site: Site) -> None:
    source, checkout = await site.queue("source"), await site.queue("checkout")
    await site.submit(source, "a", "b")
    terms = Terms(limit=2, hold=timedelta(seconds=1))
    await prepare_checkout(checkout)
    file = CheckoutFile.create(site.folder / "bundle.jsonl", "source", terms)
    await check_out(WorkerQueue(source, site.clock), checkout, file, progress=quiet)
    await source.reap()
    site.clock.advance(60)
    await site.work(source, "source")
    await site.work(checkout, "checkout")
    done = await merge(checkout, WorkerQueue(source, site.clock), file, site.clock, progress=quiet)
    assert done.refused == 2
    assert await site.results(source) == await site.records(source) == {"a": "source", "b": "source"}


async def test_an_accepted_merge_brings_the_records_of_the_checkout(site: Site) -> None:
    source, checkout, moved = [await site.queue(name) for name in ("source", "checkout", "moved")]
    await site.submit(source, "a", "b")
    await prepare_checkout(checkout)
    file = CheckoutFile.create(site.folder / "bundle.jsonl", "source", Terms(limit=2, hold=HOLD))
    await check_out(WorkerQueue(source, site.clock), checkout, file, progress=quiet)
    born = {job.key: job.life for job in await source.jobs(Selection())}
    await site.work(checkout, "checkout")
    await merge(checkout, WorkerQueue(source, site.clock), file, site.clock, progress=quiet)
    expected = {"a": "checkout", "b": "checkout"}
    assert await site.results(source) == await site.records(source) == expected
    await Move(WorkerQueue(source, site.clock), moved, RUN, route=("source", "moved")).carry_out(quiet)
    assert await site.records(moved) == expected
    assert {job.key: job.life for job in await moved.jobs(Selection())} == born


async def test_a_job_that_was_pruned_and_submitted_again_has_no_record_of_its_former_life(site: Site) -> None:
    queue = await site.queue("queue")
    await site.submit(queue, "a", "b")
    await site.work(queue, "first life")
    # Not by the command, which removes the records too: another machine may have pruned.
    await queue.prune(Selection())
    assert await site.records(queue) == {}
    await site.submit(queue, "a", "b")
    assert await site.records(queue) == {}
    first, second = await site.claim(queue)
    await queue.settle([Settlement(first, Completed({"by": "second life"}))])
    await site.write(second, "second life", settle=queue)
    assert await site.records(queue) == {second.job.key: "second life"}


async def test_a_refused_attempt_is_not_shown_because_another_queue_has_the_same_ids(site: Site) -> None:
    first, second = await site.queue("first"), await site.queue("second")
    await site.submit(first, "a")
    (refused,) = await site.claim(first)
    await site.write(refused, "refused")
    await first.cancel(Selection())
    assert await first.settle([Settlement(refused, Completed())]) == [False]
    await site.submit(second, "a", "b")
    await site.work(second, "second")
    assert await site.records(first) == {}
    assert await site.records(second) == {"a": "second", "b": "second"}


def forget_queue(lease: Lease) -> Lease:
    """Return the lease as an earlier version had it: its job does not know its queue."""
    return msgspec.structs.replace(lease, job=msgspec.structs.replace(lease.job, queue=""))


@pytest.mark.parametrize("mark", [True, False])
async def test_records_of_an_earlier_version_are_still_read(site: Site, mark: bool) -> None:
    source, copied = await site.queue("source"), await site.queue("copied")
    await source.submit([new_job("page", {}, run="other", key="other")])
    await source.cancel(Selection(run="other"))
    await site.submit(source, "a", "b")
    completed, refused = await site.claim(source)
    await site.write(forget_queue(completed), "source", settle=source, mark=mark)
    await site.write(forget_queue(refused), "refused")
    await copy(source, copied, RUN, progress=quiet)
    assert await site.records(source) == await site.records(copied) == {completed.job.key: "source"}


def settings_of(site: Site) -> Settings:
    named: dict[str, object] = {"data_folder": str(site.folder)}
    if isinstance(site.place, Database):
        named["records_database"] = site.place.url
    return resolve(named)


async def stored_jobs(site: Site) -> set[tuple[str, str]]:
    """Return the queue and key of every attempt whose records are stored, whether they count or not."""
    if isinstance(site.place, Database):
        store = await open_records(site.place.url)
        found = {(attempt.queue, attempt.key) async for attempt in store.attempts(RUN)}
        await store.close()
        return found
    return {(head.queue, head.key) for head in RecordReader(site.folder / "records").attempts()}


async def test_a_prune_removes_the_records_of_what_it_removes_and_no_others(site: Site) -> None:
    queue, other = await site.queue("queue"), await site.queue("other")
    await site.submit(queue, "a", "b", "c")
    for lease in await site.claim(queue):
        if lease.job.key == "c":
            await site.write(lease, "refused")
        else:
            # An earlier version wrote those of `a`, in a segment that it has left long ago.
            await site.write(forget_queue(lease) if lease.job.key == "a" else lease, "queue", settle=queue)
    for segment in (site.folder / "records").glob("*"):
        os.utime(segment, (0, 0))
    await copy(queue, other, RUN, progress=quiet)
    await site.work(other, "other")
    uuid = (await queue.jobs(Selection()))[0].queue
    (b,) = [job.id for job in await queue.jobs(Selection()) if job.key == "b"]
    assert await prune_with_records(RecordsPlace.of(settings_of(site)), queue, Selection(ids=frozenset({b}))) == 1
    assert await site.records(queue) == {"a": "queue"}
    assert (uuid, "b") not in await stored_jobs(site)
    assert {("", "a"), (uuid, "c")} <= await stored_jobs(site)
    await queue.cancel(Selection())
    assert await prune_with_records(RecordsPlace.of(settings_of(site)), queue, Selection()) == 2
    assert {name for name, _ in await stored_jobs(site)}.isdisjoint({uuid, ""})
    assert await site.records(other) == {"c": "other"}


async def test_a_prune_leaves_the_segment_of_a_live_worker_to_the_next_one(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        site = Site(tmp_path, "sqlite", Folder(tmp_path / "records"), stack)
        queue = await site.queue("queue")
        await site.submit(queue, "a", "b")
        writer = RecordWriter(tmp_path / "records", "w/1")
        first, second = await site.claim(queue)
        emitted = Emitted(msgspec.Raw(b'[["record",{"by":"w"}]]'))
        writer.put(first.job, emitted)
        writer.flush()
        await queue.settle([Settlement(first, Completed())])
        await prune_with_records(RecordsPlace.of(settings_of(site)), queue, Selection())
        writer.put(second.job, emitted)
        writer.flush()
        await queue.settle([Settlement(second, Completed())])
        assert await site.records(queue) == {second.job.key: "w"}, "what the worker wrote later is not lost"
        assert len(await stored_jobs(site)) == 2
        writer.close()
        await prune_with_records(RecordsPlace.of(settings_of(site)), queue, Selection())
        assert await stored_jobs(site) == {(first.job.queue, first.job.key)}
