"""A queue that is open for the length of a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from longshore.errors import NotFoundError
from longshore.media import open_queue
from longshore.queue import Count, Queue
from longshore.settings import Settings
from longshore.url import mask_url


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Queue]:
    """The queue the settings name, closed at the end whatever happens."""
    queue = await open_queue(settings.queue)
    try:
        yield queue
    finally:
        await queue.close()


async def counts_of(queue: Queue, run: str, settings: Settings) -> list[Count]:
    """The counts of a run; `NotFoundError` where the queue has no such run."""
    if counts := await queue.stats(run):
        return counts
    known = sorted({count.run for count in await queue.stats()})
    there = f"The latest are: {', '.join(known[-5:])}." if known else "It has no runs at all."
    raise NotFoundError(f"There is no run '{run}' in {mask_url(settings.queue)}. {there}")
