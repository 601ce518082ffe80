"""Throughput over time, as columns of a picture."""

from __future__ import annotations

import pytest

from longshore.runs.throughput import Span
from longshore.top.history import WINDOW, columns_of


def test_nothing_is_known_before_the_first_span() -> None:
    assert columns_of([], 3) == (0.0, [None, None, None])


def test_each_column_is_the_rate_in_its_part_of_the_time() -> None:
    back, columns = columns_of([Span(10, 10), Span(10, 40), Span(20, 0)], 4)
    assert back == 40
    assert columns == pytest.approx([1.0, 4.0, 0.0, 0.0])


def test_a_span_longer_than_a_column_fills_several_and_a_shorter_one_is_averaged() -> None:
    _, columns = columns_of([Span(6, 12), Span(1, 4), Span(1, 0)], 4)
    assert columns == pytest.approx([2.0, 2.0, 2.0, 2.0])


def test_only_the_latest_is_shown_of_a_long_past() -> None:
    back, columns = columns_of([Span(10 * WINDOW, 999), Span(WINDOW, int(WINDOW))], 2)
    assert back == WINDOW
    assert columns == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("number", [1, 7, 90])
def test_no_job_gets_lost_or_is_counted_twice(number: int) -> None:
    spans = [Span(1.5, 3), Span(0.5, 7), Span(2.25, 0), Span(4, 11)]
    back, columns = columns_of(spans, number)
    assert sum(column or 0.0 for column in columns) * back / number == pytest.approx(21)
