"""`longshore status`: KPIs, the time left, and breakdowns. What it counts is in `test_verbs`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from longshore.cli.verbs.inspect import estimate
from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import new_job
from longshore.lease import DEFAULT_LEASE, Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite.queue import SqliteQueue
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.pacing.host_rate import HostRate
from longshore.runs.control.growth_limits import LeftOut
from longshore.wrappers.growth_limits import add_left_out

from .conftest import Shell

Says = Callable[..., str]
BROKEN = Failed(Failure("processing", "no title", exception="x.TitleError", retryable=False))
AGAIN = Failed(Failure("timeout", "too slow", exception="TimeoutError"))


@pytest.fixture(autouse=True)
def _fill(here: Path) -> None:
    """Two kinds, two partitions, two hosts; seven settled by two workers, of which one is there and half busy."""

    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        assert isinstance(queue, SqliteQueue)
        await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="r", partition="CA") for n in range(6)])
        await queue.submit([new_job("doc", {"url": f"https://b.org/{n}"}, run="r") for n in range(4)])
        ann, bob = WorkerId.new("ann"), WorkerId.new("bob")
        leases = await queue.claim(Want(worker=ann, limit=5, kinds=frozenset({"page"})))
        outcomes: list[Outcome] = [Completed(), Completed(), Completed(), BROKEN, AGAIN]
        await queue.settle([Settlement(lease, each, 0.5) for lease, each in zip(leases, outcomes, strict=True)])
        leases = await queue.claim(Want(worker=bob, limit=2, kinds=frozenset({"doc"})))
        await queue.settle([Settlement(lease, Completed(), 1.5) for lease in leases])
        await queue.register(ann, DEFAULT_LEASE, WorkerInfo(run="r", busy=2, slots=4))
        await queue.close()

    asyncio.run(put())


def test_the_kpis_are_shares_of_all(says: Says) -> None:
    """A14."""
    found = json.loads(says("status", "r", "--json"))
    assert found["completion_rate"] == pytest.approx(0.6)
    assert found["success_rate"] == pytest.approx(5 / 6)
    assert found["utilisation"] == pytest.approx(0.5)
    assert found["workers"] == 1
    text = says("status")
    assert "completion rate 60%, success rate 83%, utilisation 50%" in text
    assert "1 worker at work" in text


def test_of_one_run_the_time_left_is_said(says: Says) -> None:
    text = says("status", "r")
    assert " left" in text.splitlines()[-2] or "nearly done" in text
    assert json.loads(says("status", "r", "--json"))["estimate"]["p50_seconds"] is not None
    assert "estimate" not in json.loads(says("status", "--json"))


def test_of_a_run_that_is_over_no_time_is_said(says: Says) -> None:
    says("cancel", "--run", "r", "--yes")
    assert " left" not in says("status", "r")
    assert "estimate" not in json.loads(says("status", "r", "--json"))


def test_json_of_one_run_has_these_fields_and_no_others(says: Says) -> None:
    """D4. Programs read them: a new one is a decision, a lost one breaks somebody."""
    found = json.loads(says("status", "r", "--json"))
    counts = {"pending", "claimed", "completed", "failed", "cancelled", "remaining"}
    rates = {"completion_rate", "success_rate", "jobs_per_hour", "utilisation", "workers"}
    assert found.keys() == {"run", "lanes", "estimate"} | counts | rates
    assert found["estimate"].keys() == {"p50_seconds", "p90_seconds", "binds", "basis"}
    assert all(lane.keys() - {"partition"} == {"run", "kind"} | counts for lane in found["lanes"])
    assert json.loads(says("status", "--json")).keys() == {"runs"} | counts | rates - {"jobs_per_hour"}


@pytest.mark.parametrize(("what", "name"), [("r", "run r"), ("--all", "everything")])
def test_a_pause_is_said_in_a_line_and_as_an_instant_until_it_is_over(says: Says, what: str, name: str) -> None:
    before = time.time()
    says("pause", what)
    for arguments in (["status", "r"], ["status"]):
        lines = says(*arguments).splitlines()
        assert [line for line in lines if line.startswith(f"paused: {name}; to let it go on: longshore resume {what} ")]
        (since,) = json.loads(says(*arguments, "--json"))["paused"].values()
        assert before - 5 <= since <= time.time() + 5
    assert "time left not known yet: it is paused" in says("status", "r")
    estimate = json.loads(says("status", "r", "--json"))["estimate"]
    assert (estimate["p50_seconds"], estimate["unknown"]) == (None, "it is paused")
    says("resume", what)
    assert "paused" not in says("status", "r")
    assert "paused" not in json.loads(says("status", "r", "--json"))


def test_a_closed_host_is_said_in_a_line(says: Says) -> None:
    async def close() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        assert isinstance(queue, SqliteQueue)
        now = (await queue.read_entries("pace", frozenset())).now
        standing = HostRate(rate=5.0, grown_at=now, closed_until=now + 3600, why="429")
        await queue.swap_entries("pace", [StateEntry("b.org", ABSENT, msgspec.to_builtins(standing))])
        await queue.close()

    asyncio.run(close())
    (line,) = [line for line in says("status", "r").splitlines() if line.startswith("closed: ")]
    assert line.startswith("closed: b.org for ")
    assert line.endswith("; why: longshore hosts")
    estimate = json.loads(says("status", "r", "--json"))["estimate"]
    assert (estimate["binds"], estimate["host"]) == ("host", "b.org")
    assert estimate["p50_seconds"] > 3000


def test_what_limits_left_out_is_said_of_its_run(says: Says) -> None:
    async def leave_out() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        assert isinstance(queue, SqliteQueue)
        await add_left_out(queue, "r", LeftOut(too_deep=1))
        await queue.close()

    asyncio.run(leave_out())
    line = "left out: 1 follow-on job (1 too deep), by --max-depth and --max-jobs of the run"
    assert line in says("status", "r").splitlines()
    assert json.loads(says("status", "r", "--json"))["left_out"]["too_deep"] == 1


@pytest.mark.parametrize(("by", "names"), [("kind", {"page": 6, "doc": 4}), ("partition", {"CA": 6, "(none)": 4})])
def test_counters_are_added_up_by_kind_and_partition(says: Says, by: str, names: dict[str, int]) -> None:
    head, *rows = says("status", "r", "--by", by).splitlines()
    assert head.split()[0] == by
    assert {row.split()[0]: sum(map(int, row.split()[1:6])) for row in rows[: len(names)]} == names
    listed = json.loads(says("status", "--by", by, "--json"))[f"{by}s"]
    assert [part["remaining"] for part in listed] == [2, 2]


def test_by_worker_says_who_did_what_and_who_is_there(says: Says) -> None:
    head, ann, bob = says("status", "r", "--by", "worker").splitlines()
    assert head.split() == ["worker", "completed", "failed", "mean", "time", "now"]
    assert ann.split() == ["ann", "3", "1", "0.5", "s", "2", "of", "4", "busy"]
    assert bob.split() == ["bob", "2", "0", "1.5", "s"]
    listed = json.loads(says("status", "--by", "worker", "--json"))["workers"]
    assert [(each["worker"], each["present"]) for each in listed] == [("ann", True), ("bob", False)]


def test_by_host_counts_every_state(says: Says) -> None:
    rows = says("status", "--by", "host").splitlines()[1:]
    assert [row.split()[:4] for row in rows] == [["a.org", "2", "3", "1"], ["b.org", "2", "2", "0"]]


def test_by_error_counts_what_failed_and_what_is_tried_again(says: Says) -> None:
    head, *rows = says("status", "r", "--by", "error").splitlines()
    assert head.split() == ["error", "pending", "failed", "for", "example"]
    assert sorted(" ".join(row.split()) for row in rows) == [
        "processing (TitleError) 0 1 no title",
        "timeout (TimeoutError) 1 0 too slow",
    ]


def test_another_breakdown_is_refused(refused: Callable[..., str]) -> None:
    assert "--by cannot be 'colour': it takes kind, partition, worker, host or error." in refused(
        "status", "--by", "colour"
    )


def test_a_run_that_is_not_there_is_refused_in_every_breakdown(refused: Callable[..., str]) -> None:
    for by in ("kind", "worker"):
        assert "There is no run 's'" in refused("status", "s", "--by", by)


def test_who_asks_how_far_a_run_is_imports_no_logging(shell: Shell) -> None:
    """Half of its time would go there."""
    shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r")
    looked = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "longshore", "status", "r"],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert "longshore.runs.estimate.forecast" in looked.stderr
    assert "structlog" not in looked.stderr


@pytest.mark.parametrize("medium", ["directory", "git"])
def test_a_worker_that_died_long_ago_is_not_at_work(
    here: Path, says: Says, medium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    url = f"dir://{here}/jobs"
    if medium == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", str(here / "queue.git")], check=True)
        url = f"git+file://{here}/queue.git"

    async def work_and_die() -> None:
        queue = await open_queue(url, clock=ManualClock(time.time() - 1200))
        assert isinstance(queue, WorkerRegistry)
        await queue.submit([new_job("page", {"n": n}, run="r") for n in range(3)])
        worker = WorkerId.new("ann")
        await queue.register(worker, DEFAULT_LEASE, WorkerInfo(run="r", busy=1, slots=4))
        await queue.claim(Want(worker=worker))
        await queue.close()

    asyncio.run(work_and_die())
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "another machine"))
    shown = says("status", "r", "--queue", url)
    assert "1 worker at work" not in shown
    assert "no worker is at work" in shown
    assert "1 worker not seen for 20 min" in shown
    found = json.loads(says("status", "r", "--json", "--queue", url))
    assert (found["workers"], found["workers_unseen"]) == (0, 1)
    assert "not seen for 20 min" in says("status", "r", "--by", "worker", "--queue", url)
    monkeypatch.setattr(estimate, "_WATCHED", 0.0)
    assert says("estimate", "r", "--queue", url).startswith("Not known yet")
    estimated = json.loads(says("estimate", "r", "--json", "--queue", url))
    assert (estimated["p50_seconds"], estimated["binds"]) == (None, "nobody")


@pytest.mark.parametrize("medium", ["directory", "git"])
def test_a_submission_that_died_long_ago_is_not_said_to_go_on(
    here: Path, says: Says, medium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    url = f"dir://{here}/jobs"
    if medium == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", str(here / "queue.git")], check=True)
        url = f"git+file://{here}/queue.git"

    async def submit_and_die() -> None:
        queue = await open_queue(url, clock=ManualClock(time.time() - 1200))
        assert isinstance(queue, WorkerRegistry)
        await queue.submit([new_job("page", {"n": 1}, run="r")])
        await queue.register(WorkerId.new("submission"), DEFAULT_LEASE, WorkerInfo(submitting="r"))
        await queue.close()

    asyncio.run(submit_and_die())
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "another machine"))
    shown = says("status", "r", "--queue", url)
    assert "being submitted" not in shown
    assert "a submission was not seen for 20 min" in shown
