"""Backoff: growing waits with jitter, for a queue that is unavailable and for work that does not come."""

from __future__ import annotations

import random


class Backoff:
    """A series of waits. Each is about twice the one before, up to a limit; `reset` starts over."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = max(first, longest)
        self._wait = first

    def next(self) -> float:
        """Return the seconds to wait now, with jitter: 75 to 100 % of the wait, so that workers do not move in step."""
        wait = self._wait
        self._wait = min(wait * 2, self._longest)
        return wait * random.uniform(0.75, 1.0)  # noqa: S311  no secret depends on it

    def reset(self) -> None:
        """Start again with the first wait."""
        self._wait = self._first
