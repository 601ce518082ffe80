"""How long work takes at least."""

from __future__ import annotations

import pytest

from longshore.runs.pace import least_seconds


def test_as_many_jobs_are_under_way_as_may_be() -> None:
    assert least_seconds(100, 2.0, workers=5, concurrency=4, pause=0) == pytest.approx(10)


def test_between_two_pauses_one_job_begins() -> None:
    assert least_seconds(100, 2.0, workers=5, concurrency=4, pause=3) == pytest.approx(60)


def test_it_is_never_less_than_one_job() -> None:
    assert least_seconds(1, 60.0, workers=10, concurrency=8, pause=0) == pytest.approx(60)
