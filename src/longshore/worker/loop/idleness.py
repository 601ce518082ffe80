"""Since when a worker has nothing to do, and how often it has looked for work in that time."""

from __future__ import annotations

import asyncio

from longshore.clock import Clock


class Idleness:
    """The idle time of one worker, for its stop conditions and its waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.since = clock.monotonic()
        """When the worker became idle; meaningless while a job is in flight."""
        self.empty_polls = 0
        """Claims in a row that brought nothing, or got no answer, while nothing was in flight."""
        self.run_asked_at = float("-inf")
        """When the queue was last asked, between two spaced jobs, whether the run is finished."""
        self.began = asyncio.Event()
        """Set when nothing is in flight any more."""

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self.since

    def begin(self) -> None:
        """The last job in flight was settled or lost."""
        self.restart()
        self.run_asked_at = float("-inf")
        self.began.set()

    def restart(self) -> None:
        """Count from now: the worker could not, or must not, look for work until now."""
        self.since = self._clock.monotonic()

    def end(self) -> None:
        """Jobs were claimed."""
        self.empty_polls = 0
        self.began.clear()
