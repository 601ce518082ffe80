"""A queue behind the HTTP API of a Longshore server: `https://host/api`, with the key in `LONGSHORE_API_KEY`."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.queue import Queue

__all__ = ["HttpQueue", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:  # noqa: ARG001 (the clock of the server counts)
    """Connect to the server, and ask what its queue can do. The server creates the queue, if it may."""
    return await HttpQueue.open(ApiConnection(url))


async def open_with_key(url: str, api_key: str) -> Queue:
    """Connect to the server with this key."""
    return await HttpQueue.open(ApiConnection(url, api_key))
