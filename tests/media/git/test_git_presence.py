"""The worker registry on a branch: the info is in the heartbeat, and only changes and due heartbeats are pushed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.media.git.objects.mirror import Mirror
from longshore.media.git.state.branch_files import stem_of
from longshore.queue import Reaped

LEASE = timedelta(seconds=60)
ANNA = WorkerId.new("anna")
WANT = Want(worker=ANNA, limit=1, lease=LEASE)


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *arguments], check=True, capture_output=True, text=True
    ).stdout


def jobs(*keys: str) -> list[NewJob]:
    return [NewJob(run="r", kind="page", key=key, payload={}) for key in keys]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def opened(remote: Path, cache: Path, clock: ManualClock) -> GitQueue:
    return await GitQueue.open(f"git+file://{remote}", clock, cache)


async def test_claims_that_find_nothing_push_only_when_the_heartbeat_is_due(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "cache", clock)
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    before = queue.traffic.pushes
    for _ in range(5):
        clock.advance(3)
        assert await queue.claim(WANT) == []
    assert queue.traffic.pushes == before
    clock.advance(20)
    for _ in range(5):
        assert await queue.claim(WANT) == []
    assert queue.traffic.pushes == before + 1
    clock.advance(59)
    assert await queue.present_workers() == [PresentWorker(ANNA, WorkerInfo(slots=1))]
    await queue.close()


async def test_an_unregistered_worker_without_jobs_pushes_nothing(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "cache", clock)
    await queue.submit(jobs("a"))
    await queue.claim(Want(worker=WorkerId.new("bert"), lease=LEASE))
    before = queue.traffic.pushes
    for _ in range(3):
        clock.advance(50)
        assert await queue.renew(ANNA, LEASE) == []
        await queue.deregister(ANNA)
        assert await queue.claim(WANT) == []
        await queue.present_workers()
    assert queue.traffic.pushes == before
    await queue.close()


async def test_registrations_share_the_push_of_other_calls(remote: Path, tmp_path: Path, clock: ManualClock) -> None:
    queue = await opened(remote, tmp_path / "cache", clock)
    await queue.submit(jobs("a"))
    before = queue.traffic.pushes
    workers = [WorkerId.new(f"w{n}") for n in range(20)]
    await asyncio.gather(queue.submit(jobs("b")), *(queue.register(worker, LEASE, WorkerInfo()) for worker in workers))
    assert len(await queue.present_workers()) == 20
    await asyncio.gather(queue.submit(jobs("c")), *(queue.deregister(worker) for worker in workers))
    assert await queue.present_workers() == []
    assert queue.traffic.pushes - before <= 4
    assert "workers/" not in git(remote, "ls-tree", "-r", "--name-only", "longshore-1")
    await queue.close()


async def test_a_worker_that_deregisters_with_jobs_is_still_watched_and_has_renewed_nothing(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue, observer = await opened(remote, tmp_path / "here", clock), await opened(remote, tmp_path / "there", clock)
    await queue.submit(jobs("a"))
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    await queue.claim(WANT)
    assert await observer.reap() == Reaped()
    clock.advance(40)
    await queue.deregister(ANNA)
    assert await observer.present_workers() == []
    written = json.loads(git(remote, "cat-file", "blob", f"longshore-1:workers/{stem_of(ANNA)}.json"))
    assert "about" not in written
    clock.advance(40)
    assert await observer.reap() == Reaped(returned=1)
    await queue.close()
    await observer.close()


async def test_the_next_reap_removes_silent_workers_so_that_new_observers_never_see_them(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "here", clock)
    await queue.register(ANNA, LEASE, WorkerInfo(slots=1))
    clock.advance(61)
    before = queue.traffic.pushes
    for _ in range(3):
        assert await queue.reap() == Reaped()
    assert queue.traffic.pushes == before + 1
    late = await opened(remote, tmp_path / "late", clock)
    assert await late.present_workers() == []
    await queue.close()
    await late.close()


async def test_a_refused_reap_does_not_restart_the_observation(
    remote: Path, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await opened(remote, tmp_path / "here", clock)
    await queue.submit(jobs("a"))
    await queue.claim(WANT)
    assert await queue.reap() == Reaped()
    clock.advance(61)
    whole = Mirror.push
    overtaken: list[str] = []

    def another_is_faster(self: Mirror, oid: str, branch: str, expected: str) -> bool:
        if not overtaken:
            overtaken.append(oid)
            named = ("-c", "user.name=a", "-c", "user.email=a@localhost")
            commit = git(remote, *named, "commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", "faster").strip()
            git(remote, "update-ref", f"refs/heads/{branch}", commit)
        return whole(self, oid, branch, expected)

    monkeypatch.setattr(Mirror, "push", another_is_faster)
    assert await queue.reap() == Reaped(returned=1)
    assert (len(overtaken), queue.traffic.refused) == (1, 1)
    await queue.close()


async def test_a_heartbeat_of_a_version_without_presence_counts(
    remote: Path, tmp_path: Path, clock: ManualClock
) -> None:
    queue = await opened(remote, tmp_path / "cache", clock)
    await queue.submit(jobs("a"))
    (lease,) = await queue.claim(WANT)
    written = json.loads(git(remote, "cat-file", "blob", f"longshore-1:workers/{stem_of(ANNA)}.json"))
    assert set(written) == {"label", "incarnation", "lease_seconds", "beat", "at"}, "written as before without words"
    assert await queue.present_workers() == []
    assert await queue.register(ANNA, LEASE, WorkerInfo(slots=1)) == [lease.held]
    assert await queue.present_workers() == [PresentWorker(ANNA, WorkerInfo(slots=1))]
    await queue.close()
