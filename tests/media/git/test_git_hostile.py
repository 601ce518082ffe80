"""A broken or malicious repository does no harm: foreign files are not followed or read, and stop no worker."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import zlib
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.job import NewJob, State
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.objects import objects
from longshore.media.git.state import archive, branch_files, content_limits
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection, totals

NAME = "000000099-1-" + "a" * 32 + ".json"


def git(repository: Path, *arguments: str, given: bytes = b"") -> str:
    return (
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "--git-dir", str(repository), *arguments],
            check=True,
            capture_output=True,
            input=given,
        )
        .stdout.decode()
        .strip()
    )


def put(repository: Path, path: str, content: bytes, mode: str = "100644") -> None:
    """Commit a file to the queue's branch, without Longshore."""
    blob = git(repository, "hash-object", "-w", "--stdin", given=content)
    tree = _with(repository, git(repository, "rev-parse", "longshore-1^{tree}"), path.split("/"), mode, blob)
    commit_tree(repository, tree)


def commit_tree(repository: Path, tree: str) -> None:
    head = git(repository, "rev-parse", "longshore-1")
    git(repository, "update-ref", "refs/heads/longshore-1", git(repository, "commit-tree", tree, "-p", head, "-m", "x"))


def _with(repository: Path, tree: str | None, parts: list[str], mode: str, blob: str) -> str:
    rows = {row.split("\t")[1]: row for row in git(repository, "ls-tree", tree).splitlines()} if tree else {}
    if len(parts) == 1:
        kind, oid = ("commit", "1" * 40) if mode == "160000" else ("blob", blob)
        rows[parts[0]] = f"{mode} {kind} {oid}\t{parts[0]}"
    else:
        below = rows[parts[0]].split()[2] if parts[0] in rows else None
        rows[parts[0]] = f"040000 tree {_with(repository, below, parts[1:], mode, blob)}\t{parts[0]}"
    return git(repository, "mktree", "--missing", given="\n".join(rows.values()).encode())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
async def queue(tmp_path: Path) -> GitQueue:
    git(tmp_path / "remote.git", "init", "--quiet", "--bare")
    queue = await GitQueue.open(f"git+file://{tmp_path / 'remote.git'}", SystemClock(), tmp_path / "cache")
    await queue.submit([NewJob(run="r", kind="page", key="made", payload={})])
    await queue.cancel(Selection())
    await queue.prune(Selection())
    return queue


async def still_works(queue: GitQueue) -> None:
    await queue.submit([NewJob(run="r", kind="page", key="good", payload={"n": 1})])
    leases = await queue.claim(Want(worker=WorkerId.new(), limit=10))
    assert [lease.job.key for lease in leases] == ["good"]
    assert await queue.settle([Settlement(leases[0], Completed("done"))]) == [True]
    assert [job.key for job in await queue.jobs(Selection())] == ["good"]
    assert totals(await queue.stats()).remaining == 0
    await queue.close()


@pytest.mark.parametrize(
    "path",
    [
        "available_work/hello.txt",
        "available_work/00000/00/not-a-job.json",
        f"available_work/../{NAME}".replace("../", "dotdot/"),
        f"active_work/{NAME}",
        "workers/x.json",
        "lanes/1x.json",
        "lanes/77.json",
        "archive/2026-11/000001-5.jsonl.gz",
        "archive/readme.txt",
        "very/deep/down/below/the/last/of/ours/file.json",
        "strange\u00e9.txt",
    ],
)
async def test_foreign_files_are_ignored(queue: GitQueue, tmp_path: Path, path: str) -> None:
    put(tmp_path / "remote.git", path, b"\x00\xff not json {")
    await still_works(queue)
    assert path in git(
        tmp_path / "remote.git", "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "longshore-1"
    )


async def test_negative_counts_of_an_edited_file_are_not_shown(queue: GitQueue, tmp_path: Path) -> None:
    lane = (
        b'{"run":"r","kind":"page","partition":"","pending":-7,"claimed":-7,"completed":-7,"failed":-7,"cancelled":-7}'
    )
    put(tmp_path / "remote.git", "lanes/1.json", lane)
    await still_works(queue)
    again = await GitQueue.open(f"git+file://{tmp_path / 'remote.git'}", SystemClock(), tmp_path / "other")
    for count in await again.stats():
        assert min(count.pending, count.claimed, count.completed, count.failed, count.cancelled) >= 0
    await again.close()


BAD = b'{"run":"r","kind":"page","key":"bad","payload":%s}'
NESTED = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize(
    "content",
    {
        "nothing": b"",
        "a list": b"[]",
        "a bracket": b"{",
        "half a job": b'{"run":"r"}',
        "no text": b"\xff\xfe",
        "no text within": BAD % b'{"a":"\xff"}',
        "a number without end": BAD % b'{"a":1e999}',
        "brackets": b"[" * 100_000,
        "a payload without end": BAD % NESTED,
        "a parent that is a word": BAD % b'{},"parent":"list"',
        "a parent that is half a name": BAD % b'{},"parent":{"kind":"list"}',
        "a parent of numbers": BAD % b'{},"parent":{"kind":1,"key":2}',
        "a negative depth": BAD % b'{},"depth":-1',
        "a depth beyond all bounds": BAD % (b'{},"depth":1' + b"0" * 300),
        "a depth that is a word": BAD % b'{},"depth":"deep"',
    }.items(),
    ids=lambda item: item[0],
)
async def test_an_invalid_job_is_rejected_and_not_waited_for(
    queue: GitQueue, tmp_path: Path, content: tuple[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    await queue.submit([NewJob(run="r", kind="page", key="bad", payload={})])
    remote = tmp_path / "remote.git"
    (path,) = [p for p in git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines() if "available" in p]
    put(remote, path, content[1])
    with caplog.at_level(logging.WARNING):
        await still_works(queue)
    assert "it is moved to rejected_work" in caplog.text
    files = git(remote, "ls-tree", "-r", "--name-only", "longshore-1")
    assert "rejected_work/" in files


async def test_follow_on_jobs_of_a_job_at_the_greatest_depth_can_be_read(queue: GitQueue, tmp_path: Path) -> None:
    await queue.submit([NewJob(run="r", kind="page", key="bad", payload={})])
    remote = tmp_path / "remote.git"
    (path,) = [p for p in git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines() if "available" in p]
    put(remote, path, BAD % b'{},"depth":%d' % branch_files.MAX_DEPTH)
    (lease,) = await queue.claim(Want(worker=WorkerId.new()))
    await queue.settle([Settlement(lease, Completed(None, (NewJob(run="", kind="page", key="below", payload={}),)))])
    (below,) = await queue.claim(Want(worker=WorkerId.new()))
    assert below.job.depth == branch_files.MAX_DEPTH
    await queue.close()


@pytest.mark.parametrize(
    "about",
    {
        "a word": b'"here"',
        "a list": b"[]",
        "a number": b"1e300",
        "nested without end": NESTED,
        "not JSON": b"{",
    }.items(),
    ids=lambda item: item[0],
)
async def test_a_heartbeat_with_invalid_info_is_no_worker_and_is_ignored(
    queue: GitQueue, tmp_path: Path, about: tuple[str, bytes]
) -> None:
    worker = WorkerId.new("mallory")
    path = f"workers/{branch_files.stem_of(worker)}.json"
    fields = f'"label":"mallory","incarnation":"{worker.incarnation}","lease_seconds":60,"beat":7'.encode()
    put(tmp_path / "remote.git", path, b'{%s,"about":%s}' % (fields, about[1]))
    assert await queue.present_workers() == []
    await queue.register(worker, timedelta(seconds=60), WorkerInfo(slots=1))
    assert await queue.present_workers() == [PresentWorker(worker, WorkerInfo(slots=1))]
    await still_works(queue)


@pytest.mark.parametrize("beat", [b"1" + b"0" * 300, b"-1", b"9007199254740992"])
async def test_a_heartbeat_with_a_number_of_any_size_can_be_renewed(
    queue: GitQueue, tmp_path: Path, beat: bytes
) -> None:
    worker = WorkerId.new("mallory")
    path = f"workers/{branch_files.stem_of(worker)}.json"
    words = f'"label":"mallory","incarnation":"{worker.incarnation}","lease_seconds":1e300,"about":{{}}'.encode()
    put(tmp_path / "remote.git", path, b'{%s,"beat":%s}' % (words, beat))
    await queue.renew(worker, timedelta(seconds=60))
    written = json.loads(git(tmp_path / "remote.git", "cat-file", "blob", f"longshore-1:{path}"))
    assert 0 <= written["beat"] <= 2**53
    await still_works(queue)


async def test_info_under_the_name_of_another_worker_is_ignored(queue: GitQueue, tmp_path: Path) -> None:
    content = b'{"label":"anna","incarnation":"anna/1","lease_seconds":60,"beat":7,"about":{}}'
    put(tmp_path / "remote.git", f"workers/{branch_files.stem_of(WorkerId('bert', 'bert/1'))}.json", content)
    assert await queue.present_workers() == []
    await still_works(queue)


async def test_a_job_under_the_name_of_another_is_no_job(queue: GitQueue, tmp_path: Path) -> None:
    await queue.submit([NewJob(run="r", kind="page", key="bad", payload={})])
    remote = tmp_path / "remote.git"
    (path,) = [p for p in git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines() if "available" in p]
    put(remote, path, b'{"run":"r","kind":"page","key":"forged","payload":{}}')
    await still_works(queue)


@pytest.mark.parametrize("mode", ["120000", "160000"], ids=["a symlink", "a submodule"])
async def test_links_are_not_followed(queue: GitQueue, tmp_path: Path, mode: str) -> None:
    put(tmp_path / "remote.git", f"available_work/00000/00/{NAME}", b"../../../etc/passwd", mode)
    put(tmp_path / "remote.git", "completed_work", b"/etc", mode)
    await still_works(queue)


async def test_names_with_dot_dot_are_never_used_as_paths(queue: GitQueue, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    blob = git(remote, "hash-object", "-w", "--stdin", given=b"{}")
    rows = git(remote, "ls-tree", "longshore-1").splitlines()
    for name in ("..", ".git", "a"):
        rows.append(f"100644 blob {blob}\t{name}")
    content = b"".join(
        b"%s %s\0%s" % (row.split()[0].lstrip("0").encode(), row.split("\t")[1].encode(), bytes.fromhex(row.split()[2]))
        for row in sorted(rows, key=lambda row: row.split("\t")[1])
    )
    tree = git(remote, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=content)
    commit_tree(remote, tree)
    before = names_in(tmp_path)
    await still_works(queue)
    assert names_in(tmp_path) == before


async def test_a_huge_file_is_not_read(queue: GitQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "LARGEST", 100_000)
    await queue.submit([NewJob(run="r", kind="page", key="bad", payload={})])
    remote = tmp_path / "remote.git"
    (path,) = [p for p in git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines() if "available" in p]
    put(remote, path, b" " * 200_000)
    await still_works(queue)


async def test_a_job_that_is_too_large_to_be_rewritten_is_rejected_and_the_others_are_moved(
    queue: GitQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (objects, content_limits):
        monkeypatch.setattr(module, "LARGEST", 100_000)
    remote = tmp_path / "remote.git"
    await queue.submit([NewJob(run="r", kind="page", key=key, payload={}) for key in ("good", "bad")])
    folder = git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines()
    (path,) = [path for path in folder if path.startswith("available_work/") and "/bad~" in path]
    put(remote, path, BAD % (b'{"a":[%s]}' % b",".join([b"1"] * 40_000)))
    assert await queue.cancel(Selection()) == 1
    assert [(job.key, job.state) for job in await queue.jobs(Selection())] == [("good", State.CANCELLED)]
    assert "rejected_work/" in git(remote, "ls-tree", "-r", "--name-only", "longshore-1")
    await queue.close()


async def test_a_job_with_an_impossible_settling_time_is_archived_with_the_others(
    queue: GitQueue, tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    await queue.submit([NewJob(run="r", kind="page", key=key, payload={}) for key in ("bad", "good")])
    leases = await queue.claim(Want(worker=WorkerId.new(), limit=2))
    await queue.settle([Settlement(lease, Completed()) for lease in leases])
    folder = git(remote, "ls-tree", "-r", "--name-only", "longshore-1").splitlines()
    path = min(path for path in folder if path.startswith("completed_work/"))
    put(remote, path, BAD % b'{},"settled_at":1e300')
    assert await queue.archive(Selection()) == 2
    assert [job.key for job in await queue.jobs(Selection())] == ["bad", "good"]
    await queue.close()


async def test_an_endlessly_nested_line_of_the_archive_is_ignored(queue: GitQueue, tmp_path: Path) -> None:
    line = b'{"number":1,"lane":1,"identity":"%s","epoch":1,"record":%s}' % (b"a" * 32, NESTED)
    put(tmp_path / "remote.git", "archive/2026-11/000001-1.jsonl.gz", gzip.compress(line))
    await still_works(queue)


def test_an_archive_file_that_unpacks_to_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 1000)
    bomb = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    with pytest.raises(ValueError, match="unpacks to more"):
        archive.read(bomb.compress(b"\n" * 1_000_000) + bomb.flush())


@pytest.mark.parametrize(
    "path",
    [
        f"available_work/00000/01/{NAME}",
        f"available_work/00000/00/{NAME.replace('.json', '.p0.json')}",
        f"available_work/00000/00/{NAME.replace('0000000', '00000000', 1)}",
        f"available_work/00000/00/../00/{NAME}",
        f"elsewhere/00000/00/{NAME}",
    ],
)
def test_only_the_canonical_path_of_a_job_is_accepted(path: str) -> None:
    assert branch_files.place_of(f"available_work/00000/00/{NAME}", "0" * 40) is not None
    assert branch_files.place_of(path, "0" * 40) is None
