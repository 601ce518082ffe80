"""The worker registry in a folder: the info has a file of its own, and the heartbeat shows whether a worker lives."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.queue import Reaped

LEASE = timedelta(seconds=60)
ANNA = WorkerId("anna", "anna/1")
WANT = Want(worker=ANNA, limit=1, lease=LEASE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_concurrent_claims_never_undo_a_registration(tmp_path: Path, clock: ManualClock) -> None:
    """A worker renews and claims through two open queues that do not know each other."""
    renews, claims = [await DirectoryQueue.open(tmp_path, clock) for _ in range(2)]
    for number in range(30):
        await asyncio.gather(
            renews.register(ANNA, LEASE, WorkerInfo(slots=number)), *(claims.claim(WANT) for _ in range(3))
        )
        assert await claims.present_workers() == [PresentWorker(ANNA, WorkerInfo(slots=number))]
    await asyncio.gather(renews.deregister(ANNA), *(claims.claim(WANT) for _ in range(3)))
    assert await renews.present_workers() == []
    await renews.close()
    await claims.close()


async def test_the_next_reap_removes_silent_workers_so_that_new_observers_never_see_them(
    tmp_path: Path, clock: ManualClock
) -> None:
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    assert await queue.reap() == Reaped()
    clock.advance(61)
    assert await queue.reap() == Reaped()
    late = await DirectoryQueue.open(tmp_path, clock)
    assert await late.present_workers() == []
    assert list((tmp_path / "roll").iterdir()) == []
    await queue.close()
    await late.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b'{"label": "anna"}', b'{"label": "anna", "incarnation": "anna/1", "about": 7}', b"[" * 9999],
)
async def test_a_foreign_file_in_the_registry_is_no_worker(tmp_path: Path, clock: ManualClock, content: bytes) -> None:
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    (file,) = (tmp_path / "roll").iterdir()
    file.write_bytes(content)
    (tmp_path / "roll" / "note.txt").write_text("x")
    (tmp_path / "roll" / "folder.json").mkdir()
    assert await queue.present_workers() == []
    await queue.register(ANNA, LEASE, WorkerInfo(slots=2))
    assert await queue.present_workers() == [PresentWorker(ANNA, WorkerInfo(slots=2))]
    await queue.close()


async def test_info_under_the_name_of_another_worker_is_ignored(tmp_path: Path, clock: ManualClock) -> None:
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    (file,) = (tmp_path / "roll").iterdir()
    file.rename(file.with_name("bert~0123456789ab.json"))
    assert await queue.present_workers() == []
    await queue.close()


async def test_a_queue_of_a_version_without_presence_works(tmp_path: Path, clock: ManualClock) -> None:
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.submit([NewJob(run="run", kind="page", key="a", payload={})])
    await queue.close()
    (tmp_path / "roll").rmdir()
    (job,) = (tmp_path / "pending").rglob("*.json")
    assert "depth" not in job.read_text(), "a job that was submitted from outside is written as before"
    queue = await DirectoryQueue.open(tmp_path, clock)
    assert await queue.present_workers() == []
    (lease,) = await queue.claim(WANT)
    assert (lease.job.parent, lease.job.depth) == (None, 0)
    assert await queue.register(ANNA, LEASE, WorkerInfo()) == [lease.held]
    assert await queue.present_workers() == [PresentWorker(ANNA, WorkerInfo())]
    await queue.close()
