"""Wait for the first of several awaitables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def first_of(awaited: Awaitable[T], *others: Awaitable[object], timeout: float | None = None) -> T | None:
    """Return the result of `awaited`, or None if one of `others` or `timeout` seconds ended first.

    If `awaited` and another end at the same time, the result of `awaited` counts. An exception of the one that ended
    first is raised. All others are cancelled, and have ended when this returns or raises, also if the caller is
    cancelled; wrap an awaitable that must go on in `asyncio.shield`. They are started in the order given.
    """
    first = asyncio.ensure_future(awaited)
    rest = [asyncio.ensure_future(other) for other in others]
    try:
        await asyncio.wait([first, *rest], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            return first.result()
        for task in rest:
            if task.done():
                task.result()
        return None
    finally:
        for task in (first, *rest):
            task.cancel()
        await asyncio.gather(first, *rest, return_exceptions=True)
