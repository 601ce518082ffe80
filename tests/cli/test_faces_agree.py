"""All faces of a queue tell the same numbers, in whatever state its jobs are."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import longshore
from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Failed, Outcome, Settlement, Snoozed
from longshore.queue import Selection
from longshore.runs.control.pause import pause
from longshore.top.figures import FiguresReader

from .conftest import Shell

LATER = timedelta(hours=2)
OUTCOMES: tuple[Outcome, ...] = (
    *[Completed({"ok": True})] * 5,
    *[Failed(Failure(error_type="processing", message="broken", retryable=False))] * 2,
    Failed(Failure(error_type="timeout", message="slow"), retry_in=LATER),
    *[Snoozed(LATER)] * 2,
)
EXPECTED = {"pending": 11, "claimed": 4, "completed": 4, "failed": 2, "cancelled": 2, "remaining": 15}


async def _fill(url: str) -> None:
    """Jobs in every state, some with a delay, some held by a worker that is gone; one was pruned, the run is paused."""
    queue = await open_queue(url)
    await queue.submit(
        [new_job("page", {"url": f"https://h{n % 3}.example/{n}"}, run="r", partition="AB"[n % 2]) for n in range(24)]
    )
    leases = await queue.claim(Want(worker=WorkerId.new("done"), limit=len(OUTCOMES)))
    settled = [Settlement(lease, each, 1.0) for lease, each in zip(leases, OUTCOMES, strict=True)]
    assert all(await queue.settle(settled))
    assert await queue.prune(Selection(ids=frozenset({leases[0].job.id}))) == 1
    waiting = await queue.jobs(Selection(states=frozenset({State.PENDING})))
    ready = [job.id for job in waiting if job.not_before is None]
    assert await queue.cancel(Selection(ids=frozenset(ready[:2]))) == 2
    await queue.claim(Want(worker=WorkerId.new("gone"), limit=2, lease=timedelta(milliseconds=1)))
    await queue.claim(Want(worker=WorkerId.new("here"), limit=2))
    await queue.submit([new_job("page", {"n": 1}, run="other")])
    await pause(queue, "r")
    await queue.close()


def _count(told: Any) -> dict[str, int]:
    return {name: told[name] for name in EXPECTED}


def _listed(shell: Shell, url: str) -> dict[str, int]:
    listed = json.loads(shell("jobs", "--run", "r", "--json", "--queue", url).stdout)
    states = [job["state"] for job in listed]
    counts = {name: states.count(name) for name in EXPECTED if name != "remaining"}
    return counts | {"remaining": counts["pending"] + counts["claimed"]}


async def _in_top(url: str, run: str | None) -> dict[str, int]:
    queue = await open_queue(url)
    figures = await FiguresReader(queue, run, ManualClock()).look()
    await queue.close()
    counts = [lane.count for lane in figures.lanes if lane.count.run == "r"] if run is None else [figures.count]
    (count,) = counts
    return {name: getattr(count, name) for name in EXPECTED}


@pytest.fixture(params=["sqlite", "directory", "git"])
def url(request: pytest.FixtureRequest, shell: Shell) -> str:
    folder = shell.folder
    if request.param == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", f"{folder}/queue.git"], check=True)
    urls = {
        "sqlite": f"sqlite:///{folder}/q.db",
        "directory": f"dir://{folder}/q",
        "git": f"git+file://{folder}/queue.git",
    }
    return urls[request.param]


@pytest.mark.ledger("D9")
def test_all_faces_tell_the_same_counts(
    shell: Shell, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LONGSHORE_QUEUE", url)
    shell.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    asyncio.run(_fill(url))
    status = json.loads(shell("status", "r", "--json", "--queue", url).stdout)
    waited = json.loads(shell("wait", "r", "--timeout", "1s", "--json", "--queue", url).stdout)
    everything = json.loads(shell("status", "--json", "--queue", url).stdout)
    estimate = json.loads(shell("estimate", "r", "--json", "--queue", url).stdout)
    stats = longshore.stats("r")
    exported = shell("export", "r", "-o", "results.jsonl", "--queue", url)
    told = {
        "status": _count(status),
        "status of all runs": _count(next(each for each in everything["runs"] if each["run"] == "r")),
        "wait": _count(waited),
        "jobs": _listed(shell, url),
        "stats": {name: getattr(stats, name) for name in EXPECTED},
        "top": asyncio.run(_in_top(url, "r")),
        "top of all runs": asyncio.run(_in_top(url, None)),
    }
    assert {face: counts for face, counts in told.items() if counts != EXPECTED} == {}
    assert estimate["remaining"] == EXPECTED["remaining"]
    assert len((shell.folder / "results.jsonl").read_text().splitlines()) == EXPECTED["completed"]
    assert f"{EXPECTED['remaining']} jobs of r were not finished yet" in exported.stderr
    assert status["estimate"] == waited["estimate"]
    assert status["paused"].keys() == waited["paused"].keys() == estimate["paused"].keys() == {"r"}
    assert status["completion_rate"] == waited["completion_rate"] == pytest.approx(8 / 23)
