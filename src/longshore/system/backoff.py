"""Growing waits with jitter: for a queue that is out of reach, and for work that does not come."""

from __future__ import annotations

import random


class Backoff:
    """Each wait is about twice the one before, up to a limit; a success starts over."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = max(first, longest)
        self._wait = first

    def next(self) -> float:
        """Seconds to wait now: between three quarters and all of it, so that workers do not march in step."""
        wait = self._wait
        self._wait = min(wait * 2, self._longest)
        return wait * random.uniform(0.75, 1.0)  # noqa: S311  no secret hangs on it

    def reset(self) -> None:
        """Start over."""
        self._wait = self._first
