"""A queue in memory: the reference implementation, for tests. It exists only within its process."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.memory.queue import MemoryQueue
from longshore.queue import Queue

__all__ = ["MemoryQueue", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:
    """Return a new, empty queue; the rest of the URL is ignored."""
    del url
    return MemoryQueue(clock)
