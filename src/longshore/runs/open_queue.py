"""A queue that is open for the length of a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from longshore.errors import NotFoundError, UnknownSchemeError
from longshore.media import exists, open_queue, scheme_of
from longshore.queue import Count, Queue
from longshore.settings import DEFAULT, Settings
from longshore.url import mask_url


@asynccontextmanager
async def open_or_create(settings: Settings) -> AsyncIterator[Queue]:
    """The queue the settings name, made if it is not there yet, closed at the end whatever happens."""
    check_shared(settings)
    queue = await open_queue(settings.queue)
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[Queue]:
    """The same for a command that only looks or steers: it makes nothing.

    The default queue that is not there yet is an empty one; one that somebody named is a mistake: `NotFoundError`.
    """
    if not await missing(settings):
        async with open_or_create(settings) as queue:
            yield queue
        return
    from longshore.media.memory import MemoryQueue

    yield MemoryQueue()


def check_shared(settings: Settings) -> None:
    """`UnknownSchemeError` for a queue that no second command could ever see."""
    if scheme_of(settings.queue) == "memory":
        raise UnknownSchemeError(
            "A memory:// queue lives inside one program and cannot be used from the command line. "
            "Name a file: --queue sqlite:///jobs.db"
        )


async def missing(settings: Settings) -> bool:
    """Whether the queue is the default one and not there yet. `NotFoundError` where another was named and is not."""
    check_shared(settings)
    if await exists(settings.queue):
        return False
    if settings.source("queue") == DEFAULT:
        return True
    raise NotFoundError(
        f"There is no queue at {mask_url(settings.queue)}, which {settings.source('queue')} names. "
        "`longshore submit` makes one."
    )


async def counts_of(queue: Queue, run: str, settings: Settings) -> list[Count]:
    """The counts of a run; `NotFoundError` where the queue has no such run."""
    if counts := await queue.stats(run):
        return counts
    known = sorted({count.run for count in await queue.stats()} - {""})
    there = f"The latest are: {', '.join(known[-5:])}." if known else "It has no runs at all."
    raise NotFoundError(f"There is no run '{run}' in {mask_url(settings.queue)}. {there}")
