"""The algorithm people write by hand for a shared repository: the contestant that the git medium is measured against.

Write a claim file with a time, commit, push; pull and see whose time is the earliest; the winner does the job, moves it
to `completed_work/`, and pushes again. A push that is refused is pulled and repeated. It gets every advantage: two
pushes a job, and no more commands than it needs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

_ENV = {
    **os.environ,
    **{f"GIT_{role}_{what}": "classic@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_TERMINAL_PROMPT": "0",
}


def _git(clone: Path, *arguments: str) -> bool:
    return subprocess.run(["git", *arguments], cwd=clone, env=_ENV, capture_output=True, check=False).returncode == 0


def fill(remote: Path, clone: Path, jobs: int) -> None:
    """Make the repository, with that many jobs in it."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)], check=True)
    subprocess.run(["git", "clone", "--quiet", str(remote), str(clone)], check=True, capture_output=True)
    _git(clone, "checkout", "-b", "main")
    (clone / "available_work").mkdir()
    for number in range(jobs):
        (clone / "available_work" / f"{number:05}.json").write_text(json.dumps({"n": number, "note": "x" * 150}))
    _git(clone, "add", "-A")
    _git(clone, "commit", "-m", "work")
    if not _git(clone, "push", "origin", "main"):
        raise RuntimeError("the classic queue could not be made")


def drain(remote: Path, folder: Path, seconds: float) -> int:
    """Claim, do and complete jobs until none are left or the time is over. Returns how many this worker completed."""
    worker = f"worker-{os.getpid()}"
    clone = folder / worker
    subprocess.run(["git", "clone", "--quiet", f"file://{remote}", str(clone)], check=True, env=_ENV)
    done, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        _sync(clone)
        available = sorted((clone / "available_work").glob("*.json")) if (clone / "available_work").exists() else []
        if not available:
            break
        if _claim(clone, worker, random.choice(available[:10])):
            done += 1
    return done


def _claim(clone: Path, worker: str, job: Path) -> bool:
    claims = clone / "claims" / job.stem
    claims.mkdir(parents=True, exist_ok=True)
    (claims / worker).write_text(repr(time.time()))
    if not _publish(clone, f"claim {job.stem}"):
        return False
    _sync(clone)
    if not claims.exists() or not job.exists():
        return False
    if min(claims.iterdir(), key=lambda claim: float(claim.read_text())).name != worker:
        return False
    return _move(clone, job, "completed_work", worker)


def _move(clone: Path, job: Path, folder: str, worker: str) -> bool:
    if not job.exists():
        return False
    (clone / folder).mkdir(exist_ok=True)
    content = json.loads(job.read_text()) | {"worker": worker}
    (clone / folder / job.name).write_text(json.dumps(content))
    job.unlink()
    return _publish(clone, f"{folder} {job.stem}")


def _publish(clone: Path, message: str) -> bool:
    _git(clone, "add", "-A")
    _git(clone, "commit", "--quiet", "-m", message)
    for _ in range(5):
        if _git(clone, "push", "--quiet", "origin", "main"):
            return True
        if not _git(clone, "pull", "--quiet", "--rebase", "origin", "main"):
            _git(clone, "rebase", "--abort")
            _sync(clone)
            return False
    _sync(clone)
    return False


def _sync(clone: Path) -> None:
    _git(clone, "fetch", "--quiet", "origin")
    _git(clone, "reset", "--hard", "--quiet", "origin/main")
