"""Opening: which folder a URL names, and one clear message for each possible problem with it."""

from __future__ import annotations

import asyncio
import errno
import os
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import (
    ForeignQueueError,
    LongshoreError,
    NewerSchemaError,
    PassingQueueError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    SettingsError,
)
from longshore.job import Job, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.directory import DirectoryQueue, open_queue
from longshore.media.directory.files.disk import translate
from longshore.media.directory.location import path_of
from longshore.outcome import Completed, Settlement
from longshore.queue import Reaped, Selection, Submitted, totals


def names(folder: Path) -> list[str]:
    """Return the files below a folder, without those of the journal."""
    return sorted(p.name for p in folder.rglob("*") if not p.is_dir() and "journal" not in p.parts)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("dir:///srv/jobs", Path("/srv/jobs")),
        ("dir://jobs", Path.cwd() / "jobs"),
        ("dir://./a b/%20", Path.cwd() / "a b" / "%20"),
        ("dir://~/jobs", Path.home() / "jobs"),
        ("DIR:///srv/jobs", Path("/srv/jobs")),
        ("/srv/jobs", Path("/srv/jobs")),
        ("./jobs", Path.cwd() / "jobs"),
    ],
)
def test_a_url_or_a_plain_path_names_a_folder(url: str, path: Path) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize("url", ["dir://", "dir:jobs", "", "sqlite:///jobs", "dir:///a\0b"])
def test_a_url_that_names_no_folder_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        path_of(url)


@pytest.mark.parametrize("mount_point", ["gone", "empty"])
async def test_a_share_that_is_away_for_a_moment_loses_nothing_and_gets_no_second_queue(
    tmp_path: Path, mount_point: str
) -> None:
    share, away = tmp_path / "share", tmp_path / "away"
    queue = await open_queue(f"dir://{share}/jobs", clock=ManualClock())
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(3)])
    worker, lease = WorkerId.new("w"), timedelta(seconds=60)
    leases = await queue.claim(Want(worker=worker, limit=2))
    settlements = [Settlement(each, Completed()) for each in leases]
    share.rename(away)
    if mount_point == "empty":
        share.mkdir()
    for call in (queue.renew(worker, lease), queue.settle(settlements), queue.stats(), queue.reap()):
        with pytest.raises(PassingQueueError):
            await call
    with pytest.raises(PassingQueueError):
        await queue.claim(Want(worker=worker))
    assert names(share) == []
    if mount_point == "empty":
        share.rmdir()
    away.rename(share)
    assert len(await queue.renew(worker, lease)) == 2
    assert await queue.settle(settlements) == [True, True]
    assert totals(await queue.stats()).remaining == 1
    await queue.close()


async def test_a_folder_with_foreign_files_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ForeignQueueError, match=r"thesis\.tex"):
        await open_queue(f"dir://{tmp_path}", ManualClock())
    assert names(tmp_path) == ["thesis.tex"]


async def test_a_file_is_no_queue(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("x")
    for path in (tmp_path / "jobs", tmp_path / "jobs" / "inner"):
        with pytest.raises(ForeignQueueError, match="jobs"):
            await open_queue(f"dir://{path}", ManualClock())


@pytest.mark.parametrize("mark", ["", "[]", "{}", '{"longshore": "page"}'])
async def test_a_folder_with_a_foreign_marker_file_is_no_queue(tmp_path: Path, mark: str) -> None:
    (tmp_path / "longshore.json").write_text(mark)
    with pytest.raises(ForeignQueueError, match="is no queue"):
        await open_queue(f"dir://{tmp_path}", ManualClock())


async def test_a_queue_of_a_newer_longshore_is_refused(tmp_path: Path) -> None:
    (tmp_path / "longshore.json").write_text('{"longshore": "queue", "format": 99}')
    with pytest.raises(NewerSchemaError, match="Upgrade"):
        await open_queue(f"dir://{tmp_path}", ManualClock())


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, QueueFullError),
        (errno.EDQUOT, QueueFullError),
        (errno.EACCES, ReadOnlyQueueError),
        (errno.EROFS, ReadOnlyQueueError),
        (errno.ESTALE, QueueUnavailableError),
        (errno.EIO, QueueUnavailableError),
        (errno.EOPNOTSUPP, QueueError),
    ],
)
def test_os_errors_become_queue_errors_with_the_path(number: int, kind: type[LongshoreError]) -> None:
    error = translate(OSError(number, os.strerror(number), "/q/x"), "/q")
    assert type(error) is kind
    assert "/q" in str(error)


async def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await open_queue(f"dir://{tmp_path}", ManualClock())
    jobs = [new_job("page", {"n": n}, run="run") for n in range(5)]
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if b'"n": 3' in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(QueueFullError, match="Free some space"):
            await queue.submit(jobs)
    assert await queue.jobs(Selection()) == []
    assert names(tmp_path / "staging") == []
    assert await queue.submit(jobs) == Submitted(new=5, duplicates=0)
    await queue.close()


async def test_processes_that_open_a_new_folder_at_once_share_one_queue(tmp_path: Path) -> None:
    url = f"dir://{tmp_path / 'queue'}"
    queues = await asyncio.gather(*(open_queue(url, ManualClock()) for _ in range(8)))
    jobs = [new_job("page", {"n": n}, run="run") for n in range(5)]
    answers = await asyncio.gather(*(queue.submit(jobs) for queue in queues))
    assert sum(answer.new for answer in answers) == 5
    for queue in queues:
        assert totals(await queue.stats()).pending == 5
        await queue.close()


@pytest.mark.parametrize("there", [True, False], ids=["an empty folder", "a missing folder"])
async def test_reads_and_empty_changes_create_nothing(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "queue"
    if there:
        folder.mkdir()
    queue = await DirectoryQueue.open(folder, ManualClock())
    anna = WorkerId.new("anna")
    assert (await queue.stats(), await queue.jobs(Selection()), await queue.history("1")) == ([], [], [])
    assert (await queue.present_workers(), await queue.reap()) == ([], Reaped())
    for operation in (queue.retry, queue.cancel, queue.prune):
        assert await operation(Selection()) == 0
    lease = Lease(Job(id="1", run="run", kind="page", key="a", payload={}, epoch=1), anna, 0.0)
    assert await queue.settle([Settlement(lease, Completed())]) == [False]
    await queue.deregister(anna)
    assert folder.exists() == there
    assert names(tmp_path) == []
    await queue.close()


async def test_a_queue_that_another_process_creates_is_seen_by_a_queue_opened_before(tmp_path: Path) -> None:
    early, other = [await open_queue(f"dir://{tmp_path / 'queue'}", ManualClock()) for _ in range(2)]
    assert await early.stats() == []
    await other.submit([new_job("page", {"n": 1}, run="run")])
    assert totals(await early.stats()).pending == 1
    assert await early.cancel(Selection()) == 1
    await early.close()
    await other.close()


async def test_a_closed_queue_says_so(tmp_path: Path) -> None:
    queue = await open_queue(f"dir://{tmp_path}", ManualClock())
    await queue.close()
    with pytest.raises(QueueError, match="was closed"):
        await queue.stats()


async def test_a_person_finds_one_readable_file_for_each_job(tmp_path: Path) -> None:
    """Ledger C2."""
    queue = await open_queue(f"dir://{tmp_path}", ManualClock())
    await queue.submit([new_job("page", {"url": "https://x.test/a"}, run="shop", partition="CA")])
    (file,) = (tmp_path / "pending").rglob("*.json")
    assert file.relative_to(tmp_path).parts[1].startswith("shop~page~CA~")
    assert '"url": "https://x.test/a"' in file.read_text()
    await queue.close()


async def test_a_run_is_removed_without_touching_another(tmp_path: Path) -> None:
    """Ledger C9."""
    queue = await open_queue(f"dir://{tmp_path}", ManualClock())
    for run in ("one", "two"):
        await queue.submit([new_job("page", {"n": n}, run=run) for n in range(3)])
    await queue.cancel(Selection(run="one"))
    assert await queue.prune(Selection(run="one")) == 3
    assert totals(await queue.stats()).pending == 3
    # A file is named after the machine's boot id, which may also begin with 0.
    jobs = [name for name in names(tmp_path) if name.startswith("0") and name.endswith(".json")]
    assert len(jobs) == 3
    assert {found.run for found in await queue.jobs(Selection())} == {"two"}
    assert len(names(tmp_path / "keys")) == 3
    await queue.close()
