"""Throughput over time, cut into the columns of a picture."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.runs.estimate.throughput import ThroughputSpan

WINDOW = 1800.0
"""Seconds shown at most."""


def columns_of(spans: Sequence[ThroughputSpan], number: int) -> tuple[float, list[float | None]]:
    """How many seconds the picture goes back, and the jobs a second in each of its columns, oldest first.

    None is a column of which nothing is known.
    """
    known = min(sum(span.seconds for span in spans), WINDOW)
    if known <= 0 or number <= 0:
        return 0.0, [None] * max(number, 0)
    length = known / number
    columns: list[float | None] = []
    left = list(spans)
    end = 0.0
    """How far back the newest of those left ends."""
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
