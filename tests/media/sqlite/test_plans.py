"""Every statement of the daily work finds its rows by an index, so that its cost does not grow with the backlog."""

from __future__ import annotations

import re
import sqlite3

import pytest

from longshore.errors import Failure
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.sqlite import SqliteQueue
from longshore.media.sqlite.select import _condition, jobs, prepare
from longshore.media.sqlite.statements import statements
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Selection

WHY = Failure("http", "404", retryable=False)
DAILY = [
    (topic, name)
    for topic in ("submit", "transfer", "claim", "wanted", "turns", "settle", "workers", "lanes", "notes")
    for name in statements(topic)
    if (topic, name) != ("wanted", "wanted")
]
SERVED_BY = {
    ("wanted", "lanes"): "lane_claim",
    ("wanted", "next_priority"): "lane_claim",
    ("wanted", "mixed"): "lane_claim",
    ("wanted", "of_host"): "lane_claim",
    ("wanted", "hosts"): "lane_claim",
    ("turns", "first"): "job_claim",
    ("turns", "near"): "job_claim",
    ("turns", "hosts"): "job_claim",
    ("turns", "oldest"): "job_claim",
    ("claim", "due"): "job_due",
    ("claim", "next_due"): "job_due",
    ("workers", "holdings"): "job_held",
    ("workers", "lost"): "job_held",
    ("workers", "add_failures"): "job_held",
    ("workers", "add_settlements"): "job_held",
    ("workers", "return"): "job_held",
}


def plan(tables: sqlite3.Connection, statement: str) -> list[str]:
    statement = statement.replace("{wanted}", statements("wanted")["wanted"])
    names = set(re.findall(r":(\w+)", statement))
    values = dict.fromkeys(names) if names else (None,) * statement.count("?")
    return [row[3] for row in tables.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize(("topic", "name"), DAILY)
def test_no_statement_of_the_daily_work_scans_what_grows_with_the_jobs(
    tables: sqlite3.Connection, topic: str, name: str
) -> None:
    steps = plan(tables, statements(topic)[name])
    assert not [step for step in steps if re.match(r"SCAN (job|content|settlement|failure)\b", step)]


@pytest.mark.parametrize(("topic", "name"), SERVED_BY)
def test_each_query_uses_the_index_named_after_it(tables: sqlite3.Connection, topic: str, name: str) -> None:
    steps = plan(tables, statements(topic)[name])
    assert any(f"INDEX {SERVED_BY[topic, name]}" in step for step in steps)


@pytest.mark.parametrize(("topic", "name"), [*(key for key in SERVED_BY if key[0] != "workers"), ("notes", "all")])
def test_claims_read_in_the_order_of_the_index_and_sort_nothing(
    tables: sqlite3.Connection, topic: str, name: str
) -> None:
    assert not [step for step in plan(tables, statements(topic)[name]) if "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", ["jobs", "choose"])
def test_a_selection_by_id_reads_only_those_jobs(tables: sqlite3.Connection, name: str) -> None:
    tables.execute(statements("operate")["create_chosen"])
    tables.create_function("error_matches", 2, lambda pattern, failure: False)
    texts = statements("select")
    steps = plan(tables, texts[name].format(which=texts["by_id"], condition=texts["condition"]))
    assert steps[0] == "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"


STATES_ARE_IN = {
    "near": "SEARCH job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "ready": "SEARCH job USING INDEX job_claim (lane=?)",
    "delayed": "SCAN job USING INDEX job_due",
    "claimed": "SCAN job USING INDEX job_held",
    "finished": "SEARCH settlement USING INTEGER PRIMARY KEY (rowid>?)",
    "not_completed": "SEARCH job USING INDEX job_not_completed (id>?)",
}


@pytest.mark.parametrize("name", STATES_ARE_IN)
def test_a_page_of_a_state_reads_only_where_its_jobs_are(tables: sqlite3.Connection, name: str) -> None:
    tables.create_function("error_matches", 2, lambda pattern, failure: False)
    condition = _condition(name)
    steps = plan(tables, statements("select")[name].format(condition=condition))
    assert STATES_ARE_IN[name] in steps
    assert not [step for step in steps if re.match(r"SCAN (job|content|settlement|failure)$", step)]


async def test_a_page_does_not_step_over_what_is_finished(queue: Queue, tables: sqlite3.Connection) -> None:
    """Counted in the steps of SQLite's machine, of which each row that is looked at takes several."""
    assert isinstance(queue, SqliteQueue)
    await queue.submit([new_job("page", {"n": n}, run="before") for n in range(20_000)])
    await queue.submit([new_job("page", {"n": n}, run="run", partition=f"{n % 2}") for n in range(20_000)])
    await queue.submit([new_job("page", {"n": n}, run="after") for n in range(20_000)])
    me = WorkerId.new()
    for run, number in (("before", 20_000), ("run", 19_990), ("after", 20_000)):
        leases = await queue.claim(Want(worker=me, run=run, limit=number))
        await queue.settle(
            [Settlement(lease, Failed(WHY) if n == 7 else Completed()) for n, lease in enumerate(leases)]
        )

    def steps(run: str | None, *states: State) -> int:
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 100

        prepare(tables)
        tables.set_progress_handler(count, 100)
        found = jobs(tables, Selection(run=run, states=frozenset(states)), 0.0, 0, 5, "")
        tables.set_progress_handler(None, 0)
        assert found or states == (State.CLAIMED,)
        return counted

    for meant in ("run", None):
        for state in set(State) - {State.CANCELLED}:
            assert steps(meant, state) < 5000, (meant, state)
