"""The hosts work waits for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from longshore.job import Job
from longshore.pacing.host_rate import HostRate
from longshore.top.hosts import HostRow, PendingTally, host_rows

NOW = 1000.0


def standing(rate: float = 1.0, **given: Any) -> HostRate:
    return HostRate(rate=rate, grown_at=0.0, **given)


def tally(**hosts: int) -> PendingTally:
    made = PendingTally()
    for host, number in hosts.items():
        for _ in range(number):
            made.add(Job(id="1", run="r", kind="page", key="k", payload={}, host=host))
    return made


def rows(waiting: PendingTally, pending: int, known: dict[str, HostRate]) -> dict[str, HostRow]:
    return {row.host: row for row in host_rows(waiting, pending, Counter(), known, NOW)}


def test_the_host_with_most_work_comes_first_and_one_under_way_is_among_them() -> None:
    found = host_rows(tally(a=2, b=5), 7, Counter({"c": 1}), {}, NOW)
    assert [(row.host, row.waiting) for row in found] == [("b", 5), ("a", 2), ("c", 0)]


def test_what_waits_is_scaled_up_where_not_all_was_read() -> None:
    assert rows(tally(a=30, b=10), 4000, {})["a"].waiting == 3000


def test_a_host_asked_with_several_identities_has_the_rate_of_all_that_are_open() -> None:
    known = {"a via p1": standing(2.0), "a via p2": standing(3.0), "a via p3": standing(9.0, closed_until=NOW + 50)}
    row = rows(tally(a=1), 1, known)["a"]
    assert row.rate == pytest.approx(5.0)
    assert (row.closed_for, row.why) == (0.0, "")


def test_a_host_is_closed_when_all_are_until_the_first_is_open_again() -> None:
    known = {
        "a via p1": standing(closed_until=NOW + 90, why="it refused"),
        "a via p2": standing(closed_until=NOW + 50, why="it answered 429"),
    }
    row = rows(tally(a=1), 1, known)["a"]
    assert (row.closed_for, row.why) == (50.0, "it answered 429")


def test_a_crawl_delay_bounds_the_rate() -> None:
    row = rows(tally(a=1), 1, {"a": standing(10.0, crawl_delay=2.0)})["a"]
    assert (row.rate, row.crawl_delay) == (0.5, 2.0)


def test_hosts_of_other_runs_are_not_shown() -> None:
    assert set(rows(tally(a=1), 1, {"a": standing(), "z": standing()})) == {"a"}
