"""Histograms of durations: how many were at most this long, for a few fixed bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

ATTEMPT_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Seconds. Attempts take from milliseconds (a parser) to an hour (a video)."""
WAIT_BOUNDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 7 * 86400.0)
"""Seconds. Jobs wait from no time to days."""


class Histogram(msgspec.Struct, array_like=True):
    """The number of durations in each bucket, the last one for those above all bounds, and their sum."""

    buckets: list[int]
    total: float = 0.0

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Histogram:
        """Return an empty histogram with these bounds. It does not keep them: who adds and reads it knows them."""
        return cls([0] * (len(bounds) + 1))

    def add(self, bounds: Sequence[float], seconds: float) -> None:
        """Count one duration."""
        self.buckets[bisect_left(bounds, seconds)] += 1
        self.total += seconds

    def plus(self, other: Histogram) -> Histogram:
        """Return the counts of both. They must have the same bounds."""
        buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        return Histogram(buckets, self.total + other.total)
