"""The first process that opens a queue of format 1, whose paths contain no host, upgrades it."""

from __future__ import annotations

import errno
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from longshore.clock import ManualClock
from longshore.errors import Failure, QueueError
from longshore.job import NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.files.folder import uuid_of
from longshore.media.directory.journal import upgrade
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Selection, each_job

WORKER = WorkerId("anna", "anna/1")
ALL = Selection()
SHOP = frozenset({"shop.test"})


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "r", "kind": "page", "key": key, "payload": {}, "host": "shop.test"} | fields)


def want(**fields: Any) -> Want:
    return Want(worker=WORKER, limit=10, lease=timedelta(seconds=60), **fields)


async def one_of_each(queue: Queue, clock: ManualClock) -> Lease:
    await queue.submit([job("done"), job("failed"), job("cancelled"), job("held")])
    done, failed, cancelled, held = await queue.claim(want())
    broken = Failed(Failure("processing", "it broke", retryable=False))
    await queue.settle([Settlement(done, Completed({"n": 1})), Settlement(failed, broken)])
    await queue.cancel(Selection(ids=frozenset({cancelled.job.id})))
    await queue.submit([job("ready"), job("urgent", priority=-1), job("bare", host="")])
    await queue.submit([job("late", not_before=clock.now() + 50)])
    return held


def make_format_1(root: Path) -> None:
    """Move all files to their paths of format 1."""
    for file in [path for top in ("pending", "processing", "failed", "cancelled") for path in (root / top).rglob("*")]:
        if file.is_file():
            folder = file.parent
            if len(file.relative_to(root).parts) == 7:  # pending/LANE/PRIORITY/SHARD/HOST/SEGMENT/FILE
                folder = folder.parents[2] / folder.name
            folder.mkdir(exist_ok=True)
            file.rename(folder / re.sub(r"\.h[^.]+", "", file.name))
    for folder in sorted((root / "pending").rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    for note in (root / "keys").rglob("*"):
        if note.is_symlink():
            lane, number, _ = note.readlink().parts
            note.unlink()
            note.symlink_to(f"{lane}/{number}")
    (root / "longshore.json").write_text('{"longshore":"queue","format":1}')


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def held(tmp_path: Path, clock: ManualClock) -> Lease:
    """Make a queue of format 1 in the folder, and return the lease that a worker holds."""
    queue = await DirectoryQueue.open(tmp_path, clock)
    held = await one_of_each(queue, clock)
    await queue.close()
    make_format_1(tmp_path)
    return held


@pytest_asyncio.fixture
async def queue(tmp_path: Path, clock: ManualClock, held: Lease) -> AsyncIterator[DirectoryQueue]:
    del held
    queue = await DirectoryQueue.open(tmp_path, clock)
    yield queue
    await queue.close()


async def states(queue: Queue) -> dict[str, State]:
    return {each.key: each.state async for each in each_job(queue, ALL)}


async def test_the_upgrade_keeps_every_job(queue: Queue, tmp_path: Path) -> None:
    assert await states(queue) == {
        "done": State.COMPLETED,
        "failed": State.FAILED,
        "cancelled": State.CANCELLED,
        "held": State.CLAIMED,
        **dict.fromkeys(("ready", "urgent", "bare", "late"), State.PENDING),
    }
    assert (tmp_path / "longshore.json").read_text() == '{"longshore":"queue","format":2}'
    assert not list((tmp_path / "rejected").iterdir())


async def test_pending_and_returned_jobs_have_their_hosts(queue: Queue, clock: ManualClock, held: Lease) -> None:
    clock.advance(100)
    assert await queue.settle([Settlement(held, Failed(Failure("processing", "again")))]) == [True]
    assert await queue.retry(ALL) == 2
    assert [lease.job.key for lease in await queue.claim(want(without_hosts=SHOP))] == ["bare"]
    taken = [lease.job.key for lease in await queue.claim(want())]
    assert sorted(taken) == ["cancelled", "failed", "held", "late", "ready", "urgent"]
    assert taken[0] == "urgent"


async def test_recorded_keys_stay_taken_after_a_prune(queue: Queue) -> None:
    assert (await queue.submit([job("ready"), job("done")])).duplicates == 2
    assert await queue.prune(Selection(states=frozenset({State.COMPLETED}))) == 1
    again = await queue.submit([job("ready"), job("late"), job("held"), job("bare"), job("done")])
    assert (again.new, again.duplicates) == (1, 4)


async def test_a_process_continues_the_upgrade_that_another_has_begun(
    tmp_path: Path, clock: ManualClock, held: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    del held
    monkeypatch.setattr(upgrade, "AT_ONCE", 1)

    def stopped(_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as early:
        early.setattr("longshore.media.directory.files.folder.write_marker", stopped)
        with pytest.raises(RuntimeError):
            await DirectoryQueue.open(tmp_path, clock)
    first, second = await DirectoryQueue.open(tmp_path, clock), await DirectoryQueue.open(tmp_path, clock)
    assert await states(first) == await states(second)
    assert len(await states(first)) == 8
    await first.close()
    await second.close()


async def test_a_damaged_job_is_rejected_during_the_upgrade(tmp_path: Path, clock: ManualClock, held: Lease) -> None:
    del held
    (victim,) = [path for path in (tmp_path / "pending").rglob("*.json") if '"ready"' in path.read_text()]
    victim.write_text(victim.read_text()[:-20])
    queue = await DirectoryQueue.open(tmp_path, clock)
    assert "ready" not in await states(queue)
    assert sum(count.pending for count in await queue.stats()) == 3
    assert (await queue.submit([job("ready"), job("late")])).new == 1
    await queue.close()


async def test_a_queue_without_its_journal_cannot_be_upgraded(tmp_path: Path, clock: ManualClock, held: Lease) -> None:
    del held
    (tmp_path / "journal").rename(tmp_path / "trash" / "journal")
    with pytest.raises(QueueError, match="with the Longshore that wrote it"):
        await DirectoryQueue.open(tmp_path, clock)


async def test_a_queue_of_an_earlier_version_gets_a_uuid_that_stays(
    tmp_path: Path, clock: ManualClock, held: Lease
) -> None:
    del held
    (tmp_path / "uuid.txt").unlink()
    first, second = await DirectoryQueue.open(tmp_path, clock), await DirectoryQueue.open(tmp_path, clock)
    uuids = {job.queue for queue in (first, second) for job in await queue.jobs(ALL)}
    await first.close()
    await second.close()
    assert uuids == {(tmp_path / "uuid.txt").read_text().strip()}


async def test_a_uuid_that_a_person_has_edited_is_named_with_the_fix(tmp_path: Path, clock: ManualClock) -> None:
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.submit([job("a")])
    await queue.close()
    (tmp_path / "uuid.txt").write_text("my queue")
    with pytest.raises(QueueError, match=r"uuid\.txt.*Restore it"):
        await DirectoryQueue.open(tmp_path, clock)


async def test_a_folder_without_a_uuid_that_cannot_be_written_to_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("longshore.media.directory.files.disk.write", refuse)
    assert uuid_of(str(tmp_path)) == ""
