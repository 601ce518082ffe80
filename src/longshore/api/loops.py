"""Run coroutines for plain callers, whether or not an event loop runs in their thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from longshore.system.loop_thread import LoopThread

T = TypeVar("T")
_AT_ONCE = 100


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # `asyncio.run` in the main thread handles Ctrl-C.
        return asyncio.run(coroutine)
    thread = LoopThread("longshore")
    try:
        return thread.call(coroutine)
    finally:
        thread.close()


def each_of(make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Yield what an async generator yields, a hundred at a time. It is closed with this one."""
    thread = LoopThread("longshore")
    each = make()
    try:
        while some := thread.call(_next(each)):
            yield from some
    finally:
        thread.call(_close(each))
        thread.close()


async def _next(each: AsyncGenerator[T, None]) -> list[T]:
    some: list[T] = []
    async for item in each:
        some.append(item)
        if len(some) == _AT_ONCE:
            break
    return some


async def _close(each: AsyncGenerator[T, None]) -> None:
    await each.aclose()
