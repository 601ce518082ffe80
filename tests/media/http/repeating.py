"""A queue that calls again if it got no answer, as a worker does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from longshore.errors import QueueUnavailableError
from longshore.media.http.queue import HttpQueue
from longshore.outcome import Settlement
from longshore.settlement.repair import reconsidered

_TRIES = 20


async def nothing() -> None:
    """Do nothing before a call."""


class RepeatingQueue:
    """Has the methods of the queue that it wraps. `before` is called before each call."""

    def __init__(self, queue: HttpQueue, before: Callable[[], Awaitable[None]] = nothing) -> None:
        self._queue = queue
        self._before = before
        self.traits = queue.traits

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        await self._before()
        for number in range(_TRIES):
            try:
                accepted = await self._queue.settle(settlements)
            except QueueUnavailableError as error:
                cause = error
                continue
            # What a lost answer would have said is asked for.
            return await reconsidered(self, settlements, accepted) if number else accepted  # type: ignore[arg-type]
        raise cause

    async def close(self) -> None:
        await self._queue.close()


def _repeated(name: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: RepeatingQueue, *arguments: Any, **options: Any) -> Any:
        await self._before()
        for _ in range(_TRIES):
            try:
                return await getattr(self._queue, name)(*arguments, **options)
            except QueueUnavailableError as error:
                cause = error
        raise cause

    return call


for _name, _method in inspect.getmembers(HttpQueue, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name not in vars(RepeatingQueue) and _name != "open":
        setattr(RepeatingQueue, _name, _repeated(_name))
