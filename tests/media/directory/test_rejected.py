"""Files that were edited, truncated, copied, moved or added by hand are rejected, and stop no worker."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from longshore.clock import ManualClock
from longshore.job import NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.directory import DirectoryQueue, open_queue
from longshore.media.directory.files.job_file import DamagedError
from longshore.media.directory.files.layout import lane_of
from longshore.media.directory.files.rejected import LINES_A_MINUTE, RejectedReporter
from longshore.media.directory.ops.reap import reject
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, Submitted, each_job, totals

ALL = Selection()


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "run", "kind": "page", "key": key, "payload": {"key": key}} | fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest_asyncio.fixture
async def queue(folder: Path) -> AsyncIterator[Queue]:
    queue = await open_queue(f"dir://{folder}", ManualClock())
    await queue.submit([job("a"), job("b"), job("c")])
    yield queue
    states = [found.state.value async for found in each_job(queue, ALL)]
    counts = totals(await queue.stats())
    assert {state: getattr(counts, state) for state in set(states)} == {s: states.count(s) for s in set(states)}
    assert counts.total == len(states)
    await queue.close()


async def claim(queue: Queue) -> list[Lease]:
    return await queue.claim(Want(worker=WorkerId.new("anna"), limit=10))


def only(folder: Path, pattern: str, key: str) -> Path:
    """Return the only job file below the folder that contains this key."""
    (found,) = [path for path in folder.rglob(pattern) if f'"key": "{key}"' in path.read_text()]
    return found


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace('"host": ""', '"host": "x"').replace('"page"', '"pages"'))


def replaced_by_other_json(path: Path) -> None:
    path.write_text("[1, 2, 3]\n")


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_a_link_out_of_the_folder(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    cut_off,
    emptied,
    edited,
    replaced_by_other_json,
    replaced_by_a_folder,
    replaced_by_a_link_out_of_the_folder,
    replaced_by_a_pipe,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_damaged_pending_job_is_rejected_with_the_reason_and_the_rest_is_claimed(
    queue: Queue, folder: Path, damage: Callable[[Path], None]
) -> None:
    victim = only(folder / "pending", "*.json", "b")
    damage(victim)
    assert [lease.job.key for lease in await claim(queue)] == ["a", "c"]
    (reason,) = (folder / "rejected").glob("*.reason.txt")
    assert victim.relative_to(folder).as_posix() in reason.read_text()
    assert len(list((folder / "rejected").iterdir())) == 2
    assert totals(await queue.stats()).total == 2


async def test_the_key_of_a_rejected_job_can_be_submitted_again(queue: Queue, folder: Path) -> None:
    cut_off(only(folder / "pending", "*.json", "b"))
    await claim(queue)
    assert await queue.submit([job("a"), job("b")]) == Submitted(new=1, duplicates=1)
    assert [lease.job.key for lease in await claim(queue)] == ["b"]


async def test_a_damaged_claimed_job_is_not_settled_and_the_rest_of_the_batch_is(queue: Queue, folder: Path) -> None:
    leases = await claim(queue)
    cut_off(only(folder / "processing", "*.json", "b"))
    assert await queue.settle([Settlement(lease, Completed(1)) for lease in leases]) == [True, False, True]
    assert len(list((folder / "rejected").glob("*.reason.txt"))) == 1


async def test_a_damaged_finished_job_is_left_out_of_the_listing(queue: Queue, folder: Path) -> None:
    await queue.cancel(ALL)
    edited(only(folder / "cancelled", "*.json", "a"))
    assert [found.key for found in await queue.jobs(ALL)] == ["b", "c"]


async def test_a_file_that_another_process_has_rejected_is_not_counted_twice(queue: Queue, folder: Path) -> None:
    victim = only(folder / "pending", "*.json", "b")
    cut_off(victim)
    other = await DirectoryQueue.open(folder, ManualClock())
    await claim(queue)
    reject(other._journal, DamagedError(victim.relative_to(folder).as_posix(), "It is cut off."))
    await other.close()
    assert len(list((folder / "rejected").glob("*.reason.txt"))) == 1
    assert totals(await queue.stats()).total == 2


async def test_jobs_whose_keys_were_deleted_by_hand_are_still_claimed(queue: Queue, folder: Path) -> None:
    shutil.rmtree(folder / "keys")
    assert [lease.job.key for lease in await claim(queue)] == ["a", "b", "c"]


async def test_a_copy_of_a_job_is_no_job(queue: Queue, folder: Path) -> None:
    original = only(folder / "pending", "*.json", "a")
    shutil.copy(original, original.with_name(original.name.replace("000000000001", "000000000009")))
    assert [lease.job.key for lease in await claim(queue)] == ["a", "b", "c"]
    (reason,) = (folder / "rejected").glob("*.reason.txt")
    assert "copy" in reason.read_text()
    assert totals(await queue.stats()).claimed == 3


@pytest.mark.parametrize("name", ["note.txt", "job.json", ".hidden", "000000000007.json", "ünï.json", "x" * 200])
async def test_a_foreign_file_among_the_jobs_is_rejected(queue: Queue, folder: Path, name: str) -> None:
    stranger = only(folder / "pending", "*.json", "a").with_name(name)
    stranger.write_text('{"url": "https://x.test/"}')
    assert len(await claim(queue)) == 3
    assert not stranger.exists()
    (reason,) = (folder / "rejected").glob("*.reason.txt")
    assert "name" in reason.read_text()


@pytest.mark.parametrize("place", ["pending", "completed", "failed", "cancelled", "processing"])
async def test_a_foreign_file_at_the_top_of_a_folder_is_rejected_by_the_next_reap(
    queue: Queue, folder: Path, place: str
) -> None:
    stranger = folder / place / "job.json"
    stranger.write_text("{}")
    await queue.reap()
    assert not stranger.exists()
    assert len(list((folder / "rejected").glob("*~job.json"))) == 1
    assert len(await claim(queue)) == 3


async def test_files_moved_from_processing_to_pending_by_hand_do_not_leave_the_run_unfinished(
    queue: Queue, folder: Path
) -> None:
    await claim(queue)
    await queue.submit([job("d")])
    target = only(folder / "pending", "*.json", "d").parent
    for path in (folder / "processing").rglob("*.json"):
        path.rename(target / path.name)
    await queue.reap()
    await claim(queue)
    counts = totals(await queue.stats())
    listed = [found.state.value async for found in each_job(queue, ALL)]
    assert counts.total == len(listed)
    assert not list((folder / "pending").rglob("*.json"))


async def test_pending_files_that_were_deleted_by_hand_are_no_longer_waited_for(queue: Queue, folder: Path) -> None:
    for path in (folder / "pending").rglob("*.json"):
        path.unlink()
    assert await claim(queue) == []
    assert totals(await queue.stats()).remaining == 0
    assert not await queue.wait(Want(worker=WorkerId.new()), timedelta(0))


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_file_in_place_of_a_folder_is_moved_away(queue: Queue, folder: Path, depth: int) -> None:
    leases = await claim(queue)
    lane = lane_of("run", "page", "")
    in_the_way = folder / "completed" / lane if depth == 1 else folder / "completed" / lane / "000000000"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("x")
    assert await queue.settle([Settlement(lease, Completed(1)) for lease in leases]) == [True] * 3
    assert totals(await queue.stats()).completed == 3
    assert len(list((folder / "rejected").glob("*.reason.txt"))) == 1


async def test_nothing_is_left_of_a_run_that_was_removed(queue: Queue, folder: Path) -> None:
    await queue.cancel(ALL)
    await queue.prune(ALL)
    await queue.reap()
    assert [path for top in ("pending", "cancelled") for path in (folder / top).iterdir()] == []
    assert list((folder / "rejected").iterdir()) == []
    assert await queue.submit([job("a")]) == Submitted(new=1, duplicates=0)
    assert [lease.job.key for lease in await claim(queue)] == ["a"]


async def test_odd_names_never_leave_the_folder(queue: Queue, folder: Path) -> None:
    before = set(folder.parent.iterdir())
    odd = "../../../escape/\x01\n" + "é" * 400
    await queue.submit([job(odd, run=odd, kind=odd, partition=odd)])
    want = Want(worker=WorkerId.new(odd), limit=1, run=odd)
    (lease,) = await queue.claim(want)
    assert await queue.settle([Settlement(lease, Completed(odd))]) == [True]
    assert set(folder.parent.iterdir()) == before
    assert not list(folder.parent.parent.glob("*escape*"))


async def test_rejected_files_are_counted_until_they_are_removed(queue: DirectoryQueue, folder: Path) -> None:
    assert (await queue.rejected()).count == 0
    cut_off(only(folder / "pending", "*.json", "b"))
    (only(folder / "pending", "*.json", "a").parent / "notes.txt").write_text("mine")
    await claim(queue)
    found = await queue.rejected()
    assert (found.count, found.where) == (2, str(folder / "rejected"))
    shutil.rmtree(folder / "rejected")
    assert (await queue.rejected()).count == 0


async def test_a_rejected_file_is_logged_once_with_its_name_and_reason(
    queue: DirectoryQueue, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = RejectedReporter().report  # a new one, which has logged nothing yet
    monkeypatch.setattr("longshore.media.directory.files.quarantine.report", report)
    monkeypatch.setattr("longshore.media.directory.ops.reap.report", report)
    victim = only(folder / "pending", "*.json", "b")
    cut_off(victim)
    (victim.parent / "notes.txt").write_text("mine")
    with caplog.at_level(logging.WARNING):
        await claim(queue)
        await queue.reap()
    messages = sorted(record.getMessage() for record in caplog.records)
    assert len(messages) == 2
    assert all(line.startswith("Moved to rejected/: 'pending/") for line in messages)
    assert any(victim.name in line and "It has no seal at its end" in line for line in messages)
    assert any("notes.txt" in line for line in messages)


def test_many_rejected_files_are_logged_in_a_few_lines_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    teller = RejectedReporter(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            teller.report(f"pending/{number}", "It is none of ours.")
        assert len(caplog.records) == LINES_A_MINUTE
        now[0] = 60.0
        teller.report("pending/last", "It is none of ours.")
    assert len(caplog.records) == LINES_A_MINUTE + 1
    assert f"({1000 - LINES_A_MINUTE} more before it)" in caplog.records[-1].getMessage()


async def test_a_claimed_job_of_a_run_that_was_forgotten_comes_back(queue: Queue, folder: Path) -> None:
    """Its file was taken away by hand, its run was removed, and the file was put back."""
    await queue.submit([job("lost", run="other")])
    (lease,) = await queue.claim(Want(worker=WorkerId.new("otto"), run="other"))
    file = only(folder, "processing/**/*.json", "lost")
    away = folder.with_name("away.json")
    file.rename(away)
    await queue.reap()
    assert await queue.stats("other") == []
    file.parent.mkdir(exist_ok=True, parents=True)
    away.rename(file)
    later = ManualClock()
    later.advance(3600)
    other = await open_queue(f"dir://{folder}", later)
    await other.reap()
    later.advance(3600)
    await other.reap()
    await other.reap()
    assert [(found.key, found.state) async for found in each_job(other, Selection(run="other"))] == [
        ("lost", State.PENDING)
    ]
    assert totals(await other.stats("other")).pending == 1
    await other.close()
    assert await queue.settle([Settlement(lease, Completed())]) == [False]
