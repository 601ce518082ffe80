"""`longshore autoscale-target` (D7): a number alone, for whatever starts workers elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media import open_queue

QUEUE = "sqlite:///jobs.db"
Says = Callable[..., str]
Refused = Callable[..., str]


@pytest.fixture
def target(here: Path, monkeypatch: pytest.MonkeyPatch, says: Says) -> Says:
    """Run the verb on the queue that `filled` fills."""
    monkeypatch.setenv("LONGSHORE_QUEUE", QUEUE)
    return lambda *arguments: says("autoscale-target", *arguments)


def filled(claimed: int = 0, **runs: int) -> None:
    """Put so many jobs into each run, of which so many in all are claimed."""

    async def fill() -> None:
        queue = await open_queue(QUEUE)
        jobs = [
            NewJob(kind="page", payload={}, key=str(n), run=run) for run, number in runs.items() for n in range(number)
        ]
        await queue.submit(jobs)
        if claimed:
            worker = WorkerId("w", "1")
            want = Want(worker=worker, kinds=frozenset({"page"}), limit=claimed, lease=timedelta(hours=1))
            assert len(await queue.claim(want)) == claimed
        await queue.close()

    asyncio.run(fill())


def test_it_prints_a_number_and_nothing_else(target: Says) -> None:
    filled(june=2001)
    assert target("june") == "3\n"


def test_the_number_follows_from_what_is_pending_for_each_worker_within_the_bounds(target: Says) -> None:
    filled(june=30)
    assert target("june", "--per", "10") == "3\n"
    assert target("june", "--per", "10", "--bounds", "5:9") == "5\n"
    assert target("june", "--per", "10", "--bounds", "0:2") == "2\n"


def test_a_run_that_is_finished_needs_the_fewest(target: Says, says: Says) -> None:
    filled(june=30)
    says("cancel", "--run", "june", "--yes")
    assert target("june") == "1\n"
    assert target("june", "--bounds", "0:9") == "0\n"


def test_while_a_job_is_held_somebody_must_be_there_to_bring_it_back(target: Says) -> None:
    filled(june=2, claimed=2)
    assert target("june", "--bounds", "0:9") == "1\n"


def test_other_runs_do_not_count_unless_no_run_is_named(target: Says) -> None:
    filled(june=30, july=20)
    assert target("june", "--per", "10") == "3\n"
    assert target("--per", "10") == "5\n"


def test_json_says_what_the_number_is_based_on(target: Says) -> None:
    filled(june=30, claimed=4)
    said = json.loads(target("june", "--per", "10", "--json"))
    assert said == {"target": 3, "run": "june", "pending": 26, "claimed": 4, "per": 10, "bounds": "1:50"}


def test_a_queue_that_is_not_there_yet_needs_the_fewest_and_is_not_made(here: Path, says: Says) -> None:
    assert says("autoscale-target") == "1\n"
    assert list(here.iterdir()) == []


def test_an_unknown_run_is_refused_rather_than_given_no_workers(target: Says, refused: Refused) -> None:
    filled(june=1)
    assert "There is no run 'jnue'" in refused("autoscale-target", "jnue")


@pytest.mark.parametrize("bounds", ["", "5", "9:1", "0:0", "-1:5", "1:5:9", "a:b", "1:", "1:٥"])
def test_bounds_that_are_none_are_refused_with_an_example(here: Path, refused: Refused, bounds: str) -> None:
    error = refused("autoscale-target", f"--bounds={bounds}")
    assert f"--bounds cannot be '{bounds}'" in error
    assert "such as 1:50" in error


@pytest.mark.parametrize("per", ["0", "-3", "many"])
def test_one_worker_for_less_than_one_job_is_refused(here: Path, refused: Refused, per: str) -> None:
    assert "--per" in refused("autoscale-target", f"--per={per}")
