"""A queue in memory: the reference, and the queue of tests. It lives and dies with its process."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.memory.queue import MemoryQueue
from longshore.queue import Queue

__all__ = ["MemoryQueue", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:
    """A new, empty queue, whatever the rest of the URL says."""
    del url
    return MemoryQueue(clock)
