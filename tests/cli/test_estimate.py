"""`longshore estimate`: numbers where there is something to go by, and why not where there is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.waiting import wait_until

from longshore.cli.verbs.inspect import estimate as verb
from longshore.extensions.presence import WorkerInfo
from longshore.job import new_job
from longshore.lease import DEFAULT_LEASE, Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite.queue import SqliteQueue
from longshore.outcome import Completed, Settlement

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


@pytest.fixture
def fill(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """A run of so many jobs, of which so many are completed, with one worker."""
    # The second look would add nothing: nobody works.
    monkeypatch.setattr(verb, "_WATCHED", 0.0)

    async def put(jobs: int, completed: int) -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        assert isinstance(queue, SqliteQueue)
        await queue.submit([new_job("page", {"n": n}, run="r") for n in range(jobs)])
        worker = WorkerId.new("w")
        leases = await queue.claim(Want(worker=worker, limit=completed))
        await queue.settle([Settlement(lease, Completed(), 2.0) for lease in leases])
        await queue.register(worker, DEFAULT_LEASE, WorkerInfo(run="r", busy=4, slots=4))
        await queue.close()

    return lambda jobs, completed: asyncio.run(put(jobs, completed))


@pytest.mark.ledger("F6")
def test_it_says_both_times_what_binds_and_what_it_goes_by(
    fill: Callable[[int, int], None], says: Callable[..., str]
) -> None:
    fill(100, 50)
    lines = says("estimate", "r").splitlines()
    assert lines[0].startswith("half of such runs end within  ")
    assert lines[1].startswith("nine of ten such runs end within  ")
    assert lines[2].split(maxsplit=2)[2].startswith("the workers")
    assert "50 jobs finished" in lines[3]
    assert "1 worker" in lines[3]


def test_json_is_in_seconds(fill: Callable[[int, int], None], says: Callable[..., str]) -> None:
    fill(100, 50)
    found = json.loads(says("estimate", "r", "--json"))
    assert (found["run"], found["remaining"], found["binds"]) == ("r", 50, "workers")
    assert 0 < found["p50_seconds"] < found["p90_seconds"]
    assert found["basis"]["finished"] == 50


def test_where_nothing_has_finished_it_says_so(fill: Callable[[int, int], None], says: Callable[..., str]) -> None:
    fill(100, 0)
    assert says("estimate", "r") == "Not known yet: nothing has finished yet. 100 jobs are left.\n"
    assert json.loads(says("estimate", "r", "--json"))["p50_seconds"] is None


def test_a_run_that_is_over_is_said_to_be(fill: Callable[[int, int], None], says: Callable[..., str]) -> None:
    fill(3, 3)
    assert says("estimate", "r") == "It is done: nothing is left to do.\n"


def test_a_run_that_is_not_there_is_named(fill: Callable[[int, int], None], refused: Callable[..., str]) -> None:
    fill(3, 3)
    assert "There is no run 's'" in refused("estimate", "s")


def test_of_a_paused_run_it_says_how_it_goes_on(fill: Callable[[int, int], None], says: Callable[..., str]) -> None:
    fill(100, 50)
    says("pause", "r")
    first, second = says("estimate", "r").splitlines()
    assert first == "Not known yet: it is paused. 50 jobs are left."
    assert second.startswith("paused: run r; to let it go on: longshore resume r ")
    found = json.loads(says("estimate", "r", "--json"))
    assert (found["p50_seconds"], found["unknown"], list(found["paused"])) == (None, "it is paused", ["r"])


def test_a_kind_that_no_worker_takes_is_named_in_place_of_a_time(
    fill: Callable[[int, int], None], says: Callable[..., str]
) -> None:
    fill(100, 50)

    async def others() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        assert isinstance(queue, SqliteQueue)
        await queue.submit([new_job("detail", {"n": 1}, run="r")])
        [there] = await queue.present_workers()
        await queue.register(there.worker, DEFAULT_LEASE, msgspec.structs.replace(there.info, kinds=("page",)))
        await queue.close()

    asyncio.run(others())
    first, second = says("estimate", "r").splitlines()
    assert first == "Not known yet: no worker takes kind detail. 51 jobs are left."
    assert "longshore work FILE" in second
    found = json.loads(says("estimate", "r", "--json"))
    assert (found["p50_seconds"], found["binds"], found["untaken"]) == (None, "nobody", ["detail"])
    assert "time left not known yet: no worker takes kind detail" in says("status", "r")


def test_a_worker_says_which_kinds_it_takes(shell: Shell) -> None:
    for kind in ("page", "detail"):
        shell("submit", kind, "--urls-file", shell.urls(3), "--run", "r")
    worker = shell.start("work", "pages.py", "--run", "r")
    try:
        wait_until(lambda: bool(shell.json("status", "r", "--json")["completed"] == 3), looks=100)
        assert shell.json("status", "r", "--json")["estimate"]["untaken"] == ["detail"]
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
