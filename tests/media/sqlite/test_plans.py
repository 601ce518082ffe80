"""Every statement of the daily work finds its rows by an index, so that its cost does not grow with the backlog."""

from __future__ import annotations

import re
import sqlite3

import pytest

from longshore.media.sqlite.statements import statements

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
