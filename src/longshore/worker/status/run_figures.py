"""How far the work is, how fast it goes and how long it still takes, in words."""

from __future__ import annotations

from collections import deque

from longshore.clock import Clock
from longshore.observe.statistics import about, jobs_rate

_WINDOW_SECONDS = 30.0
_WINDOW_JOBS = 20
"""The rate is measured over at least this time and this many jobs: slow work needs hours for a rate."""
_MOST_SAMPLES = 500


class RunFigures:
    """The counts of the work a worker takes part in: those of its run, or of all runs if it works on all.

    With a `target`, the number of jobs after which the worker stops, they are those of the worker alone.
    """

    def __init__(self, clock: Clock, target: int | None) -> None:
        self._clock = clock
        self._target = target
        self._own = self._own_noted = 0
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=_MOST_SAMPLES)

    def finished(self, jobs: int) -> None:
        """Count jobs that this worker has finished just now."""
        self._own += jobs

    def note(self, done: int, remaining: int) -> None:
        """Take the counts of the queue: finished and unfinished jobs."""
        if self._target is not None:
            done, remaining = self._own, min(max(self._target - self._own, 0), remaining)
        self._own_noted = self._own
        now = self._clock.monotonic()
        self._samples.append((now, done, remaining))
        while (
            len(self._samples) > 2
            and self._samples[1][0] <= now - _WINDOW_SECONDS
            and done - self._samples[1][1] >= _WINDOW_JOBS
        ):
            self._samples.popleft()

    @property
    def words(self) -> str:
        """Such as `23 of 200, 2.1 jobs/hour, about 4 h left`; empty before the queue has answered."""
        if not self._samples:
            return ""
        _, done, remaining = self._samples[-1]
        # Jobs that finished since the queue was asked, at most all that remained.
        since = min(self._own - self._own_noted, remaining)
        done, remaining = done + since, remaining - since
        parts = [f"{done:,} of {done + remaining:,}"]
        first_at, first_done, first_remaining = self._samples[0]
        seconds = self._clock.monotonic() - first_at
        if seconds > 0 and done > first_done:
            parts.append(jobs_rate((done - first_done) / seconds))
            # While a crawl finds new jobs, those that remain become fewer more slowly than jobs finish.
            shrinking = min(first_remaining - remaining, done - first_done) / seconds
            if remaining and shrinking > 0:
                parts.append(f"about {about(remaining / shrinking)} left")
        return ", ".join(parts)
