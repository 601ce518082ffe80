"""A queue as the worker calls it, with a note of what it has been asked and has not answered yet.

A queue that refuses raises an error, and is tried again. One that hangs raises nothing: only the time tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from itertools import count
from typing import Any

from longshore.clock import Clock
from longshore.queue import Queue

_MAY_TAKE_LONG = frozenset({"wait", "close"})


class TimedQueue:
    """Wraps a queue, whatever it can do besides the contract included. Every call goes through as it is."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._numbers = count()
        self._pending: dict[int, float] = {}

    @property
    def silence(self) -> float:
        """For how many seconds the call that waits longest has been without an answer; 0 where none waits."""
        return self._clock.monotonic() - min(self._pending.values()) if self._pending else 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._queue, name)
        return self._noted(found) if iscoroutinefunction(found) and name not in _MAY_TAKE_LONG else found

    def _noted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def noted(*given: Any, **named: Any) -> Any:
            number = next(self._numbers)
            self._pending[number] = self._clock.monotonic()
            try:
                return await call(*given, **named)
            finally:
                del self._pending[number]

        return noted
