"""How long work takes at least."""

from __future__ import annotations

import pytest

from longshore.runs.estimate.throughput import KEPT, Throughput, ThroughputSpan
from longshore.runs.watch.current_rate import WINDOW, CurrentRate, least_seconds, seconds_left


def test_as_many_jobs_are_under_way_as_may_be() -> None:
    assert least_seconds(100, 2.0, workers=5, concurrency=4, pause=0) == pytest.approx(10)


def test_between_two_pauses_one_job_begins() -> None:
    assert least_seconds(100, 2.0, workers=5, concurrency=4, pause=3) == pytest.approx(60)


def test_it_is_never_less_than_one_job() -> None:
    assert least_seconds(1, 60.0, workers=10, concurrency=8, pause=0) == pytest.approx(60)


def test_the_time_left_follows_from_the_rate() -> None:
    assert seconds_left(60, 2.0) == pytest.approx(30)
    assert seconds_left(60, 0.0) is None


def test_throughput_has_the_rate_of_its_pace_however_often_one_looks() -> None:
    """Old spans are joined in pairs; the rate is still that of the last half minute."""
    seen, pace = Throughput(), CurrentRate()
    for tenth in range(10 * KEPT):
        now, finished = tenth / 10, 100 * max(tenth - 8 * KEPT, 0)
        seen.note(now, finished)
        pace.note(now, finished)
    assert KEPT > 2 * WINDOW
    assert seen.per_second == pytest.approx(pace.per_second)


def test_the_rate_is_known_from_what_was_before_the_first_look() -> None:
    seen = Throughput([ThroughputSpan(40.0, 4000), ThroughputSpan(20.0, 40), ThroughputSpan(20.0, 20)])
    assert seen.per_second == pytest.approx(1.5)
    seen.note(1000.0, 5000)
    assert seen.per_second == pytest.approx(1.5)
    seen.note(1020.0, 5080)
    assert seen.per_second == pytest.approx(2.5)


def test_a_crawl_that_finds_as_many_jobs_as_it_finishes_has_no_end_in_sight() -> None:
    rate = CurrentRate()
    rate.note(0, done=0, remaining=100)
    rate.note(10, done=370, remaining=100)
    assert rate.seconds_left(100) is None
    rate.note(20, done=500, remaining=80)
    assert rate.seconds_left(80) == 80


def test_the_time_left_of_a_run_that_does_not_grow_follows_from_its_rate() -> None:
    rate = CurrentRate()
    rate.note(0, done=0, remaining=100)
    rate.note(10, done=50, remaining=50)
    assert rate.seconds_left(50) == 10
