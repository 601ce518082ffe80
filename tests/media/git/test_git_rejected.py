"""Rejected files on the branch are counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

from longshore.clock import SystemClock
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments], cwd=folder, check=True)


async def test_a_damaged_job_is_counted_as_rejected(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    queue = await GitQueue.open(f"git+file://{tmp_path / 'remote.git'}", SystemClock(), tmp_path / "cache")
    await queue.submit([NewJob(run="r", kind="page", key=key, payload={}) for key in ("bad", "good")])
    assert (await queue.rejected()).count == 0
    git(tmp_path, "clone", "--quiet", "--branch", "longshore-1", "remote.git", "clone")
    victim = min((tmp_path / "clone" / "available_work").rglob("*.json"))
    victim.write_text("nonsense")
    git(tmp_path / "clone", "commit", "--quiet", "--all", "--message", "spoil")
    git(tmp_path / "clone", "push", "--quiet")
    assert len(await queue.claim(Want(worker=WorkerId.new(), limit=10))) == 1
    found = await queue.rejected()
    await queue.close()
    assert (found.count, found.where) == (1, "rejected_work/ of its branch")
