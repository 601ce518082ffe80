"""Throughput over time, divided into the columns of a plot."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.runs.estimate.throughput import ThroughputSpan

WINDOW = 1800.0
"""The longest time shown (seconds)."""


def columns_of(spans: Sequence[ThroughputSpan], number: int) -> tuple[float, list[float | None]]:
    """Return the seconds that the plot covers, and the jobs per second in each column, oldest first.

    None is a column without data.
    """
    known = min(sum(span.seconds for span in spans), WINDOW)
    if known <= 0 or number <= 0:
        return 0.0, [None] * max(number, 0)
    length = known / number
    columns: list[float | None] = []
    left = list(spans)
    end = 0.0
    """The age of the end of the newest remaining span."""
    for column in range(number):
        begins, ends = column * length, (column + 1) * length
        finished = seconds = 0.0
        while left:
            span = left[-1]
            overlap = min(ends, end + span.seconds) - max(begins, end)
            if span.seconds > 0 and overlap > 0:
                finished += span.finished * overlap / span.seconds
                seconds += overlap
            if end + span.seconds > ends:
                break
            end += span.seconds
            left.pop()
        columns.append(finished / seconds if seconds > 0 else None)
    return known, columns[::-1]
