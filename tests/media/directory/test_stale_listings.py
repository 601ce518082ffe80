"""A volume that shows outdated listings, as NFS does for seconds, loses no job, no count, no key and no lease."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import NewJob
from longshore.lease import Lease, Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.files import disk
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, Submitted, totals

ALL = Selection()


class Volume:
    """A client of a network volume: while `lags`, it lists each folder as it was at the last `remember`."""

    def __init__(self, root: Path, *, own_writes_refresh: bool = False) -> None:
        self._root = root
        self._own_writes_refresh = own_writes_refresh
        self._real = disk.names
        self._remembered: dict[str, list[str]] = {}
        self.lags = False

    def remember(self) -> None:
        self._remembered = {str(path): self._real(str(path)) for path in self._root.rglob("*") if path.is_dir()}

    def names(self, path: str) -> list[str]:
        found = self._real(path)
        refreshed = self._own_writes_refresh and any(name.startswith(".nfs-longshore-") for name in found)
        if not self.lags or refreshed or not path.startswith(str(self._root)):
            return found
        return list(self._remembered.get(path, []))


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Volume]:
    made = Volume(tmp_path)
    monkeypatch.setattr(disk, "names", made.names)
    yield made
    made.lags = False


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "run", "kind": "page", "key": key, "payload": {"key": key}} | fields)


def jobs(*keys: str) -> list[NewJob]:
    return [job(key) for key in keys]


async def opened(folder: Path, clock: ManualClock | None = None) -> DirectoryQueue:
    return await DirectoryQueue.open(folder / "queue", clock or ManualClock())


async def claim(queue: Queue, worker: str = "anna") -> list[Lease]:
    return await queue.claim(Want(worker=WorkerId(worker, worker), limit=10))


def keys(leases: list[Lease]) -> list[str]:
    return sorted(lease.job.key for lease in leases)


async def test_a_claim_with_an_outdated_listing_loses_no_job(tmp_path: Path, volume: Volume) -> None:
    here, there = await opened(tmp_path), await opened(tmp_path)
    await here.submit(jobs("a"))
    await there.settle([Settlement(lease, Completed(1)) for lease in await claim(there)])
    volume.remember()
    await here.submit(jobs("b", "c", "d"))
    volume.lags = True
    assert await claim(there) == []
    assert totals(await here.stats()).pending == 3
    await there.reap()
    volume.lags = False
    assert keys(await claim(here)) == ["b", "c", "d"]
    assert await here.submit(jobs("b", "c", "d")) == Submitted(new=0, duplicates=3)
    await here.close()
    await there.close()


async def test_a_claim_finds_the_jobs_at_once_if_its_own_writes_refresh_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(tmp_path, own_writes_refresh=True)
    monkeypatch.setattr(disk, "names", volume.names)
    queue = await opened(tmp_path)
    await queue.submit(jobs("a"))
    await queue.settle([Settlement(lease, Completed(1)) for lease in await claim(queue)])
    volume.remember()
    await queue.submit(jobs("b", "c"))
    volume.lags = True
    await claim(queue)
    volume.lags = False
    counts = totals(await queue.stats())
    assert (counts.pending + counts.claimed, counts.completed) == (2, 1)
    await queue.close()


@pytest.mark.parametrize("delay", [None, 1e10], ids=["ready", "delayed"])
async def test_jobs_that_are_not_counted_are_found_by_the_next_reap(tmp_path: Path, delay: float | None) -> None:
    """An older Longshore lowered the counters after an outdated listing."""
    queue = await opened(tmp_path)
    await queue.submit([job("a", not_before=delay), job("b", not_before=delay)])
    saved = shutil.copytree(tmp_path / "queue" / "pending", tmp_path / "saved")
    shutil.rmtree(tmp_path / "queue" / "pending")
    await queue.reap()
    assert totals(await queue.stats()).pending == 0
    shutil.rmtree(tmp_path / "queue" / "pending", ignore_errors=True)
    saved.rename(tmp_path / "queue" / "pending")
    await queue.reap()
    assert totals(await queue.stats()).pending == 2
    if delay is None:
        assert keys(await claim(queue)) == ["a", "b"]
    await queue.close()


async def test_jobs_of_a_run_that_the_journal_has_forgotten_are_found_by_the_next_reap(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit(jobs("a", "b"))
    saved = shutil.copytree(tmp_path / "queue" / "pending", tmp_path / "saved")
    await queue.cancel(ALL)
    await queue.prune(ALL)
    await queue.reap()
    shutil.rmtree(tmp_path / "queue" / "pending")
    saved.rename(tmp_path / "queue" / "pending")
    await queue.reap()
    assert totals(await queue.stats()).pending == 2
    assert keys(await claim(queue)) == ["a", "b"]
    await queue.close()


async def test_removed_delayed_and_claimed_files_are_no_longer_waited_for(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit([job("a"), *(job(f"later {number}", not_before=1e10) for number in range(150))])
    await claim(queue)
    shutil.rmtree(tmp_path / "queue" / "pending")
    shutil.rmtree(tmp_path / "queue" / "processing")
    await queue.reap()
    assert totals(await queue.stats()).remaining == 0
    assert await queue.submit(jobs("a")) == Submitted(new=1, duplicates=0)
    await queue.close()


async def test_a_reap_with_an_outdated_listing_changes_no_counter(tmp_path: Path, volume: Volume) -> None:
    queue = await opened(tmp_path)
    volume.remember()
    await queue.submit([job("a"), job("b", not_before=1e10)])
    await claim(queue)
    volume.lags = True
    before = await queue.stats()
    await queue.reap()
    assert await queue.stats() == before
    volume.lags = False
    await queue.close()


async def test_a_damaged_file_is_rejected_without_losing_the_jobs_that_the_listing_hides(
    tmp_path: Path, volume: Volume
) -> None:
    queue = await opened(tmp_path)
    await queue.submit(jobs("a", "b"))
    volume.remember()
    await queue.submit(jobs("c", "d"))
    first = min((tmp_path / "queue" / "pending").rglob("*.json"))
    first.write_text("{}")
    volume.lags = True
    await claim(queue)
    volume.lags = False
    await queue.reap()
    counts = totals(await queue.stats())
    assert counts.pending + counts.claimed == 3
    await queue.close()


async def test_a_key_is_not_free_because_a_listing_hides_its_job(tmp_path: Path, volume: Volume) -> None:
    queue = await opened(tmp_path)
    await queue.submit(jobs("old"))
    await queue.cancel(ALL)
    await queue.prune(ALL)  # from now on a recorded key may be that of a removed job
    volume.remember()
    await queue.submit(jobs("a"))
    volume.lags = True
    with pytest.raises(QueueUnavailableError, match="outdated listing"):
        await queue.submit(jobs("a"))
    volume.lags = False
    assert await queue.submit(jobs("a")) == Submitted(new=0, duplicates=1)
    await queue.close()


async def test_a_worker_is_not_told_that_it_lost_a_job_that_the_listing_hides(tmp_path: Path, volume: Volume) -> None:
    queue, renewing = await opened(tmp_path), await opened(tmp_path)
    await queue.submit(jobs("a"))
    volume.remember()
    (lease,) = await claim(queue)
    volume.lags = True
    with pytest.raises(QueueUnavailableError, match="outdated listing"):
        await renewing.renew(lease.worker, timedelta(seconds=60))
    volume.lags = False
    assert [held.job_id for held in await renewing.renew(lease.worker, timedelta(seconds=60))] == [lease.job.id]
    await queue.close()
    await renewing.close()


async def test_a_delayed_job_becomes_ready_although_the_listing_hid_it_once(tmp_path: Path, volume: Volume) -> None:
    clock = ManualClock()
    queue = await opened(tmp_path, clock)
    volume.remember()
    await queue.submit([job("a", not_before=clock.now() + 10)])
    clock.advance(11)
    volume.lags = True
    assert await claim(queue) == []
    volume.lags = False
    assert keys(await claim(queue)) == ["a"]
    await queue.close()


async def test_an_entry_of_another_process_is_not_replaced_because_the_listing_hides_it(
    tmp_path: Path, volume: Volume
) -> None:
    here, there = await opened(tmp_path), await opened(tmp_path)
    await here.submit([])
    volume.remember()
    (version,) = await here.swap_entries("quota", [StateEntry("a", ABSENT, 1)])
    volume.lags = True
    with pytest.raises(QueueUnavailableError, match="outdated listing"):
        await there.swap_entries("quota", [StateEntry("a", ABSENT, 2)])
    volume.lags = False
    assert (await there.read_entries("quota")).entries == (StateEntry("a", str(version), 1),)
    await here.close()
    await there.close()


async def test_a_journal_that_a_listing_hides_is_not_replaced(tmp_path: Path, volume: Volume) -> None:
    queue = await opened(tmp_path)
    await queue.submit(jobs("a"))
    volume.lags = True  # nothing is remembered: every folder seems empty
    with pytest.raises(QueueUnavailableError, match="outdated listing"):
        await opened(tmp_path)
    volume.lags = False
    assert keys(await claim(queue)) == ["a"]
    await queue.close()


async def test_markers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit(jobs("a"))
    lane = next((tmp_path / "queue" / "pending").iterdir())
    (lane / ".nfs-longshore-0123456789ab").touch()
    for path in lane.rglob("*.json"):
        path.unlink()
    await queue.reap()
    await queue.reap()
    assert list((tmp_path / "queue" / "pending").iterdir()) == []
    assert [path.name for path in (tmp_path / "queue" / "rejected").iterdir() if "nfs" in path.name] == []
    await queue.close()


LAGGING_MACHINE = """
import asyncio, sys
from pathlib import Path
from longshore.clock import SystemClock
from longshore.lease import Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.files import disk
from longshore.outcome import Completed, Settlement

root, worker, lagging_listings = sys.argv[1], sys.argv[2], int(sys.argv[3])
real, remembered, listings = disk.names, {}, 0

def names(path):
    # For a while a folder is listed as it was the first time.
    global listings
    listings += 1
    if listings > lagging_listings or not path.startswith((f"{root}/pending", f"{root}/processing")):
        return real(path)
    return list(remembered.setdefault(path, real(path)))

async def main():
    disk.names = names
    queue = await DirectoryQueue.open(Path(root), SystemClock())
    me = WorkerId.new(worker)
    (lease,) = await queue.claim(Want(worker=me))
    await queue.settle([Settlement(lease, Completed(worker))])
    await queue.reap()
    print(lease.job.key, flush=True)
    sys.stdin.readline()
    while True:
        leases = await queue.claim(Want(worker=me, limit=3))
        accepted = await queue.settle([Settlement(lease, Completed(worker)) for lease in leases])
        for lease, good in zip(leases, accepted):
            if good:
                print(lease.job.key, flush=True)
        await queue.reap()
        if listings > lagging_listings and not leases and not sum(c.remaining for c in await queue.stats()):
            break
    await queue.close()

asyncio.run(main())
"""


async def test_machines_with_outdated_listings_finish_every_job_once(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    command = (sys.executable, "-c", LAGGING_MACHINE, str(tmp_path / "queue"))
    machines, settled = [], []
    for number in range(3):
        await queue.submit([job(str(number), host=f"h{number}")])
        machine = subprocess.Popen(  # noqa: ASYNC220
            (*command, f"machine-{number}", "300"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert machine.stdout is not None
        settled.append(await asyncio.to_thread(machine.stdout.readline))
        machines.append(machine)
    await queue.submit([job(str(number), host=f"h{number % 5}") for number in range(3, 60)])
    outputs = await asyncio.gather(*(asyncio.to_thread(machine.communicate, "\n", 120) for machine in machines))
    assert [machine.returncode for machine in machines] == [0, 0, 0]
    settled += [key for output, _ in outputs for key in output.split()]
    assert sorted(map(int, settled)) == list(range(60))
    assert totals(await queue.stats()).completed == 60
    await queue.close()
