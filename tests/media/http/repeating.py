"""A queue that calls again if it got no answer, as a worker does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from longshore.errors import QueueUnavailableError
from longshore.media.http.queue import HttpQueue
from longshore.outcome import Settlement
from longshore.settlement.repair import reconsidered

_TRIES = 20


class RepeatingQueue:
    """Has the methods of the queue that it wraps. `before` is called before each call."""

    def __init__(self, queue: HttpQueue, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self._queue = queue
        self._before = before
        self.traits = queue.traits

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._queue, name)
        if name == "close":
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            if self._before is not None:
                await self._before()
            for _ in range(_TRIES):
                try:
                    return await method(*arguments, **options)
                except QueueUnavailableError as error:
                    cause = error
            raise cause

        return call

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if self._before is not None:
            await self._before()
        for number in range(_TRIES):
            try:
                accepted = await self._queue.settle(settlements)
            except QueueUnavailableError as error:
                cause = error
                continue
            return await reconsidered(self, settlements, accepted) if number else accepted
        raise cause
