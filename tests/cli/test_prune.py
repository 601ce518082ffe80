"""`longshore prune`: finished jobs go, and nothing else does (C9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Failed, Outcome, Settlement

from .conftest import Shell

Says = Callable[..., str]
Counts = Callable[[str], tuple[int, ...]]


@pytest.fixture
def filled(here: Path) -> None:
    """Two runs in the default queue. In `one`: a job that completed, one that failed, one claimed, one pending."""
    failed = Failed(Failure(error_type="timeout", message="too slow", retryable=False))

    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        for run in ("one", "two"):
            await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run=run) for n in range(4)])
            leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=3, run=run))
            outcomes: list[Outcome] = [Completed({"ok": True}), failed]
            await queue.settle([Settlement(lease, o, 0.5) for lease, o in zip(leases, outcomes, strict=False)])
        await queue.close()

    asyncio.run(put())


@pytest.fixture
def counts(says: Says) -> Counts:
    """How a run stands."""

    def read(run: str) -> tuple[int, ...]:
        found = json.loads(says("status", run, "--json"))
        return tuple(found[name] for name in ("pending", "claimed", "completed", "failed", "cancelled"))

    return read


@pytest.mark.usefixtures("filled")
def test_finished_jobs_of_a_run_go_and_the_others_stay(says: Says, counts: Counts) -> None:
    assert says("prune", "--run", "one", "--yes") == "2 jobs are removed.\n"
    assert counts("one") == (1, 1, 0, 0, 0)
    assert counts("two") == (1, 1, 1, 1, 0)
    assert says("prune", "--run", "one", "--yes") == "No such jobs: nothing to prune.\n"


@pytest.mark.usefixtures("filled")
def test_a_run_is_cleaned_away_without_touching_another(
    says: Says, counts: Counts, refused: Callable[..., str]
) -> None:
    says("cancel", "--run", "one", "--yes")
    assert says("prune", "--run", "one", "--yes") == "4 jobs are removed.\n"
    assert counts("two") == (1, 1, 1, 1, 0)
    assert [job["run"] for job in json.loads(says("jobs", "--json"))] == ["two"] * 4
    says("prune", "--run", "two", "--state", "failed", "--yes")
    assert counts("two") == (1, 1, 1, 0, 0)


@pytest.mark.usefixtures("filled")
def test_one_command_removes_a_run_with_its_unfinished_jobs(
    says: Says, counts: Counts, shell: Shell, refused: Callable[..., str]
) -> None:
    assert "name the run with --run" in refused("prune", "--unfinished", "--yes", "--kind", "page")
    assert "leave out --state" in refused("prune", "--unfinished", "--yes", "--run", "one", "--state", "failed")
    assert "This would prune 4 jobs" in shell("prune", "--run", "one", "--unfinished").stderr
    assert counts("one") == (1, 1, 1, 1, 0)
    assert says("prune", "--run", "one", "--unfinished", "--yes") == "4 jobs are removed.\n"
    assert [job["run"] for job in json.loads(says("jobs", "--json"))] == ["two"] * 4
    assert counts("two") == (1, 1, 1, 1, 0)


@pytest.mark.usefixtures("filled")
def test_what_was_removed_may_be_submitted_anew(here: Path, says: Says) -> None:
    (here / "urls.txt").write_text("".join(f"https://a.org/{n}\n" for n in range(4)))
    says("prune", "--run", "one", "--yes")
    assert json.loads(says("submit", "page", "--urls-file", "urls.txt", "--run", "one"))["submitted"] == 2


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("conditions", "number"),
    [
        (["--state", "failed"], 2),
        (["--error", "time*"], 2),
        (["--kind", "page", "--run", "two"], 2),
        (["--kind", "doc"], 0),
        (["--partition", "CA"], 0),
        (["--older-than", "0s"], 4),
        (["--older-than", "90d"], 0),
        (["1"], 1),
    ],
)
def test_the_options_say_which_jobs_go(says: Says, conditions: list[str], number: int) -> None:
    before = len(json.loads(says("jobs", "--json")))
    says("prune", *conditions, "--yes")
    assert before - len(json.loads(says("jobs", "--json"))) == number


@pytest.mark.usefixtures("filled")
def test_what_is_not_finished_is_never_removed(says: Says, counts: Counts, refused: Callable[..., str]) -> None:
    message = refused("prune", "--run", "one", "--state", "pending", "--yes")
    assert (
        "Jobs that are pending cannot be changed by prune; those that are cancelled or completed or failed" in message
    )
    assert says("prune", "3", "4") == "Job 3 is claimed, job 4 is pending: nothing to prune.\n"
    assert counts("one") == (1, 1, 1, 1, 0)


def test_everything_at_once_must_be_meant(here: Path, refused: Callable[..., str]) -> None:
    assert "Say which jobs to prune" in refused("prune", "--yes")


@pytest.mark.usefixtures("filled")
def test_nobody_to_ask_means_that_nothing_goes(shell: Shell, counts: Counts) -> None:
    done = shell("prune", "--older-than", "0s")
    assert done.returncode == 2
    assert "This would prune 4 jobs, and there is no terminal to ask at. Add --yes." in done.stderr
    assert counts("one") == (1, 1, 1, 1, 0)


def test_a_queue_that_is_not_there_is_not_made_by_pruning(here: Path, says: Says, refused: Callable[..., str]) -> None:
    assert says("prune", "--older-than", "1d", "--yes") == "No such jobs: nothing to prune.\n"
    assert "There is no queue at ./queue, which --queue names" in refused(
        "prune", "--older-than", "1d", "--yes", "--queue", "./queue"
    )
    assert list(here.iterdir()) == []
