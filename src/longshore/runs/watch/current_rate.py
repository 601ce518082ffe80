"""The current rate of a run in jobs per second, and the time that the remaining jobs take at that rate."""

from __future__ import annotations

from collections import deque

WINDOW = 30.0
"""Seconds over which the rate is measured: long enough to be steady, short enough to notice a slow-down."""


def least_seconds(jobs: int, mean: float, *, workers: int, concurrency: int, pause: float) -> float:
    """Return the shortest time for `jobs` jobs of `mean` seconds each; never less than `mean`.

    `pause` is the time in seconds that a worker waits between the starts of two jobs.
    """
    # A worker starts at most one job per pause, and has at most `concurrency` jobs in flight.
    seconds_per_job = max(mean / concurrency, pause)
    return max(jobs * seconds_per_job / workers, mean)


def slots_in_use(slots: float, workers: int | None, pause: float, mean: float) -> float:
    """Return how many of all `slots` are in use on average if the jobs take `mean` seconds each.

    Each worker begins a job no sooner than `pause` seconds after its last one began or ended.
    """
    if not workers or not pause:
        return slots
    # With one slot, the pause begins when the job ends; with more, others may still be in flight at the next begin.
    alone = slots / workers < 2
    return min(slots, workers * mean / (pause + (mean if alone else 0.0)))


def seconds_left(remaining: int, per_second: float) -> float | None:
    """Return how long the remaining jobs take at this rate; None if nothing is finished at all."""
    return remaining / per_second if per_second > 0 else None


class CurrentRate:
    """Counts of finished and of remaining jobs over time. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int | None]] = deque()
        self._not_before = 0.0

    def wait_until(self, instant: float) -> None:
        """Set the time before which no further job can finish."""
        self._not_before = instant

    def note(self, now: float, done: int, remaining: int | None = None) -> None:
        """Record that `done` jobs are finished and `remaining` are not, at the time `now`.

        Without `remaining`, the time left is that of a run that does not grow.
        """
        self._seen.append((now, done, remaining))
        # Keep one sample older than the window: the rate is measured from it.
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        """Jobs per second over the last half minute; 0 before anything is known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before, _), (end, after, _) = self._seen[0], self._seen[-1]
        return max(after - before, 0) / (end - start) if end > start else 0.0

    @property
    def _shrinking(self) -> float:
        """Jobs per second by which the remaining ones become fewer: less than the rate while a crawl finds new ones."""
        if len(self._seen) < 2:
            return 0.0
        (start, _, before), (end, _, after) = self._seen[0], self._seen[-1]
        if before is None or after is None:
            return self.per_second
        return min((before - after) / (end - start), self.per_second) if end > start else 0.0

    def seconds_left(self, remaining: int) -> float | None:
        """Return how long the remaining jobs take as things go; None if that is not known, or if they become more."""
        waits = self._not_before - self._seen[-1][0] if self._seen else 0.0
        if waits > 0:
            # The past rate says nothing about remaining jobs that must wait.
            return waits
        return seconds_left(remaining, self._shrinking)
