"""The outages of the queue: since when each operation fails, and for how much longer it is tried again."""

from __future__ import annotations

from collections.abc import Callable

from longshore.clock import Clock
from longshore.errors import PassingQueueError, QueueError


class Outage:
    """The operations of one worker that fail, by name. From any thread."""

    def __init__(self, clock: Clock, patience: Callable[[PassingQueueError], float]) -> None:
        """`patience` returns how many seconds an operation may fail with this error."""
        self._clock = clock
        self._patience = patience
        self._since: dict[str, float] = {}

    def left(self, doing: str, error: QueueError) -> float:
        """Return for how many more seconds `doing` may fail; 0 or less if this error is to end the worker."""
        if not isinstance(error, PassingQueueError):
            return 0.0
        now = self._clock.monotonic()
        return self._since.setdefault(doing, now) + self._patience(error) - now

    def over(self, doing: str) -> None:
        """`doing` has succeeded."""
        self._since.pop(doing, None)
