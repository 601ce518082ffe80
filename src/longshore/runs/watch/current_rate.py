"""How fast a run goes, and how long it will take at that pace."""

from __future__ import annotations

from collections import deque

WINDOW = 30.0
"""Seconds looked back: long enough to be steady, short enough to notice a slow-down."""


def least_seconds(jobs: int, mean: float, *, workers: int, concurrency: int, pause: float) -> float:
    """How long so many jobs take at least that take `mean` seconds each: never less than one of them.

    `pause` is what a worker waits between the beginnings of two jobs.
    """
    # Between two pauses one job begins; without them as many are under way as may be.
    a_job = max(mean / concurrency, pause)
    return max(jobs * a_job / workers, mean)


def seconds_left(remaining: int, per_second: float) -> float | None:
    """Return how long the remaining jobs take at this rate; None if nothing is finished at all."""
    return remaining / per_second if per_second > 0 else None


class CurrentRate:
    """Counts of finished jobs over time. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._not_before = 0.0

    def wait_until(self, instant: float) -> None:
        """Nothing more will be done before this time."""
        self._not_before = instant

    def note(self, now: float, done: int) -> None:
        """So many jobs are done at this time."""
        self._seen.append((now, done))
        # One entry older than the window is kept: the pace is measured from it.
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        """Jobs a second over the last half minute; 0 before anything is known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return max(after - before, 0) / (end - start) if end > start else 0.0

    def seconds_left(self, remaining: int) -> float | None:
        """How long the rest takes at this pace; None where that cannot be said."""
        waits = self._not_before - self._seen[-1][0] if self._seen else 0.0
        if waits > 0:
            # How fast it went before says nothing about a rest that waits.
            return waits
        return seconds_left(remaining, self.per_second)
