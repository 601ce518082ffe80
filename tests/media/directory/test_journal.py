"""The journal: applying twice or late changes nothing, a power cut loses nothing, old entries are removed."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, QueueError, QueueUnavailableError
from longshore.job import NewJob, State
from longshore.lease import Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.journal import generations
from longshore.media.directory.journal.entry import JournalEntry
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops.submit import Arrival, Arrivals
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Queue, Selection, Submitted, totals

ALL = Selection()
WANT = Want(worker=WorkerId("anna", "anna/1"), limit=10, lease=timedelta(seconds=60))


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "run", "kind": "page", "key": key, "payload": {"key": key}} | fields)


async def opened(folder: Path) -> DirectoryQueue:
    return await DirectoryQueue.open(folder, ManualClock())


async def many_changes(queue: Queue) -> None:
    """Make every kind of change to the same jobs."""
    await queue.submit([job("a"), job("b"), job("c")])
    a, b, c = await queue.claim(WANT)
    broken = Failed(Failure("processing", "it broke"))
    await queue.settle([Settlement(a, Completed(1, (job("d"),))), Settlement(b, broken), Settlement(c, Released())])
    for _ in range(2):
        await queue.cancel(ALL)
        await queue.retry(ALL)
    await queue.claim(WANT)
    await queue.cancel(ALL)
    await queue.prune(ALL)
    await queue.submit([job("a"), job("b", priority=1)])
    await queue.claim(WANT)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "journal").glob("*/0*.json"))


def files(folder: Path, *tops: str) -> list[str]:
    tops = tops or ("pending", "processing", "completed", "failed", "cancelled", "keys")
    return sorted(str(path) for top in tops for path in (folder / top).rglob("*") if not path.is_dir())


async def test_applying_old_entries_again_changes_nothing(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await many_changes(queue)
    before = files(tmp_path)
    late = Journal(str(tmp_path))
    late.open()
    late._replay()
    assert files(tmp_path) == before
    assert await queue.submit([job("a"), job("b")]) == Submitted(new=0, duplicates=2)
    await queue.close()


async def test_renames_that_a_power_cut_undid_are_repeated(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit([job("a"), job("b")])
    before = shutil.copytree(tmp_path / "pending", tmp_path.parent / "pending", symlinks=True)
    await queue.claim(WANT)
    await queue.close()
    # As if the machine had lost what was not synced, and booted again.
    shutil.rmtree(tmp_path / "processing")
    shutil.rmtree(tmp_path / "pending")
    shutil.copytree(before, tmp_path / "pending")
    (tmp_path / "processing").mkdir()
    for mark in (tmp_path / "boots").iterdir():
        mark.unlink()
    queue = await opened(tmp_path)
    assert {found.state for found in await queue.jobs(ALL)} == {State.CLAIMED}
    await queue.close()


async def test_old_entries_are_removed_and_a_late_process_starts_from_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "GENERATION", 4)
    queue, sleeper = await opened(tmp_path), await opened(tmp_path)
    for number in range(50):
        await queue.submit([job(str(number))])
    assert len(entries(tmp_path)) <= 8
    assert len(list((tmp_path / "journal").iterdir())) <= 2
    assert totals(await sleeper.stats()).pending == 50
    assert len(await sleeper.claim(Want(worker=WorkerId.new(), limit=100))) == 50
    assert totals(await queue.stats()).claimed == 50
    await queue.close()
    await sleeper.close()


async def test_a_late_process_cannot_link_into_an_old_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "GENERATION", 4)
    queue = await opened(tmp_path)
    await queue.submit([])  # makes the queue
    late = Journal(str(tmp_path))
    late.open()
    for number in range(30):
        await queue.submit([job(str(number))])
    with PendingChange(str(tmp_path), "late") as change:
        change.move("nowhere", "elsewhere")
        assert not late.commit(change)
    assert late.refresh().n == 30
    await queue.close()


async def test_a_change_whose_folder_was_swept_is_not_committed(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit([])  # makes the queue
    late = Journal(str(tmp_path))
    late.open()
    with PendingChange(str(tmp_path), "late") as change:
        change.stage([b"content"])
        change.move("nowhere", "elsewhere")
        late.sweep(change.id)
        with pytest.raises((QueueUnavailableError, FileNotFoundError)):
            late.commit(change)
    assert entries(tmp_path) == []
    await queue.close()


async def test_a_committed_change_that_was_not_applied_is_applied_by_the_next_process(tmp_path: Path) -> None:
    queue = await opened(tmp_path)
    await queue.submit([job("a")])
    dying = await opened(tmp_path)
    dying._journal._apply = _die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        await dying.claim(WANT)
    assert [held.epoch for held in await queue.renew(WANT.worker, WANT.lease)] == [1]
    assert files(tmp_path, "staging") == []
    await queue.close()
    await dying.close()


def _die(entry: JournalEntry) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize("lost", ["journal", "journal/0000000000/base.json"])
async def test_a_lost_journal_is_rebuilt_from_the_job_files(tmp_path: Path, lost: str) -> None:
    queue = await opened(tmp_path)
    await many_changes(queue)
    before, counts = await queue.jobs(ALL), await queue.stats()
    await queue.close()
    if lost == "journal":
        shutil.rmtree(tmp_path / lost)
    else:
        (tmp_path / lost).write_text("{")
        with pytest.raises(QueueError, match=r"journal.* away and open the queue again"):
            await opened(tmp_path)
        shutil.rmtree(tmp_path / "journal")
    queue = await opened(tmp_path)
    assert await queue.jobs(ALL) == before
    assert await queue.stats() == counts
    assert await queue.submit([job("a"), job("z")]) == Submitted(new=1, duplicates=1)
    assert len({found.id for found in await queue.jobs(ALL)}) == len(before) + 1
    await queue.close()


@pytest.mark.parametrize("digits", [220, 300], ids=["file", "folder"])
@pytest.mark.parametrize("not_before", [None, 1e10], ids=["ready", "delayed"])
async def test_a_move_that_the_volume_cannot_do_is_rejected_and_the_queue_continues(
    tmp_path: Path, digits: int, not_before: float | None
) -> None:
    queue = await opened(tmp_path)
    await queue.submit([job("good")])
    dying = Journal(str(tmp_path))
    dying.open()
    dying._apply = _die  # type: ignore[method-assign]
    arrivals = Arrivals([_with_a_long_name(job("bad", not_before=not_before), digits), Arrival.new(job("mate"), 0.0)])
    with pytest.raises(KeyboardInterrupt):
        dying.transact("submit", lambda change, head: arrivals.add_to(dying, change, head))
    assert [found.key for found in await queue.jobs(ALL)] == ["good", "mate"]
    (reason,) = (tmp_path / "rejected").glob("*.reason.txt")
    assert "cannot be moved to its path" in reason.read_text()
    assert '"bad"' in reason.with_name(reason.name.removesuffix(".reason.txt")).read_text()
    assert totals(await queue.stats()).pending == 2
    other = await opened(tmp_path)
    assert await other.submit([job("bad")]) == Submitted(new=1, duplicates=0)
    assert [lease.job.key for lease in await other.claim(WANT)] == ["good", "mate", "bad"]
    assert files(tmp_path, "staging") == []
    await queue.close()
    await other.close()


async def test_the_caller_of_a_change_that_the_volume_cannot_apply_gets_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await opened(tmp_path)
    await queue.submit([job("good")])
    with monkeypatch.context() as patch:
        patch.setattr(Arrival, "new", lambda job, _: _with_a_long_name(job, 220))
        with pytest.raises(QueueError, match="is in rejected/"):
            await queue.submit([job("bad")])
    assert len(list((tmp_path / "rejected").glob("*.reason.txt"))) == 1
    assert totals(await queue.stats()).pending == 1
    assert await queue.submit([job("bad")]) == Submitted(new=1, duplicates=0)
    assert [lease.job.key for lease in await queue.claim(WANT)] == ["good", "bad"]
    await queue.close()


_arrival = Arrival.new


def _with_a_long_name(new: NewJob, digits: int) -> Arrival:
    """Return the arrival of a job that a version without limits would have accepted."""
    arrival = _arrival(new, 0.0)
    return arrival._replace(file=arrival.file._replace(priority=10**digits))


@pytest.mark.parametrize("others_continue", [False, True])
async def test_a_process_says_that_the_queue_was_set_back_while_it_used_it(
    tmp_path: Path, others_continue: bool
) -> None:
    folder = tmp_path / "queue"
    queue = await opened(folder)
    await queue.submit([job("a"), job("b")])
    shutil.copytree(folder, tmp_path / "backup", symlinks=True)
    await queue.settle([Settlement(lease, Completed(1)) for lease in await queue.claim(WANT)])
    shutil.rmtree(folder)
    (tmp_path / "backup").rename(folder)
    other = await opened(folder)
    if others_continue:
        for number in range(5):
            await other.submit([job(str(number))])
    for call in (queue.stats, lambda: queue.claim(WANT), lambda: queue.submit([job("late")])):
        with pytest.raises(QueueError, match="was set back to an earlier state while it was in use"):
            await call()
    assert totals(await other.stats()).pending == (7 if others_continue else 2)
    await queue.close()
    await other.close()
