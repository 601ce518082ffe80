"""Throughput over time, as columns of a picture."""

from __future__ import annotations

import pytest

from longshore.runs.estimate.throughput import ThroughputSpan
from longshore.top.throughput_columns import WINDOW, columns_of


def test_nothing_is_known_before_the_first_span() -> None:
    assert columns_of([], 3) == (0.0, [None, None, None])


def test_each_column_is_the_rate_in_its_part_of_the_time() -> None:
    back, columns = columns_of([ThroughputSpan(10, 10), ThroughputSpan(10, 40), ThroughputSpan(20, 0)], 4)
    assert back == 40
    assert columns == pytest.approx([1.0, 4.0, 0.0, 0.0])


def test_a_span_longer_than_a_column_fills_several_and_a_shorter_one_is_averaged() -> None:
    _, columns = columns_of([ThroughputSpan(6, 12), ThroughputSpan(1, 4), ThroughputSpan(1, 0)], 4)
    assert columns == pytest.approx([2.0, 2.0, 2.0, 2.0])


def test_only_the_latest_is_shown_of_a_long_past() -> None:
    back, columns = columns_of([ThroughputSpan(10 * WINDOW, 999), ThroughputSpan(WINDOW, int(WINDOW))], 2)
    assert back == WINDOW
    assert columns == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("number", [1, 7, 90])
def test_no_job_gets_lost_or_is_counted_twice(number: int) -> None:
    spans = [ThroughputSpan(1.5, 3), ThroughputSpan(0.5, 7), ThroughputSpan(2.25, 0), ThroughputSpan(4, 11)]
    back, columns = columns_of(spans, number)
    assert sum(column or 0.0 for column in columns) * back / number == pytest.approx(21)
