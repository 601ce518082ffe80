"""Open the queue that the settings name, for the length of a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from longshore.errors import NotFoundError, UnknownSchemeError
from longshore.media import exists, open_queue, scheme_of
from longshore.observe import traces
from longshore.queue import Count, Queue
from longshore.runs.watch.rejections import rejections_of
from longshore.settings import DEFAULT, Settings
from longshore.url import mask_url


@asynccontextmanager
async def open_or_create(settings: Settings) -> AsyncIterator[Queue]:
    """Yield the queue of the settings, created if it does not exist, and close it at the end."""
    check_shared(settings)
    traces.begin(wanted=settings.traces)
    queue = await open_queue(settings.queue)
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[Queue]:
    """Yield the queue of the settings for a command that only reads or changes jobs: nothing is created.

    If the default queue does not exist yet, yield an empty one. If a queue was named and does not exist, raise
    `NotFoundError`.
    """
    if not await missing(settings):
        async with open_or_create(settings) as queue:
            yield queue
        return
    from longshore.media.memory import MemoryQueue

    yield MemoryQueue()


def check_shared(settings: Settings) -> None:
    """Raise `UnknownSchemeError` for a memory queue, which no second command could ever see."""
    if scheme_of(settings.queue) == "memory":
        raise UnknownSchemeError(
            "A memory:// queue lives inside one program and cannot be used from the command line. "
            "Name a file: --queue sqlite:///jobs.db"
        )


async def missing(settings: Settings) -> bool:
    """Return whether the default queue does not exist yet. Raise `NotFoundError` if a named queue does not exist."""
    check_shared(settings)
    if await exists(settings.queue):
        return False
    if settings.source("queue") == DEFAULT:
        return True
    raise NotFoundError(
        f"There is no queue at {mask_url(settings.queue)}, which {settings.source('queue')} names. "
        "`longshore submit` makes one."
    )


async def check_there(settings: Settings) -> None:
    """Raise `NotFoundError` if the queue does not exist, for a command that must not create it."""
    if await missing(settings):
        raise NotFoundError(f"There is no queue at {mask_url(settings.queue)} yet. `longshore submit` makes one.")


async def counts_of(queue: Queue, run: str, settings: Settings) -> list[Count]:
    """Return the counts of a run. Raise `NotFoundError` if the queue has no such run."""
    if counts := await queue.stats(run):
        return counts
    if (rejects := await rejections_of(queue, run)) is not None:
        files = "1 file of it was" if rejects.count == 1 else f"{rejects.count:,} files of it were"
        raise NotFoundError(
            f"No job of run '{run}' is left in {mask_url(settings.queue)}: {files} rejected or removed by hand. "
            f"See {rejects.where}."
        )
    known = sorted({count.run for count in await queue.stats()} - {""})
    there = f"The latest are: {', '.join(known[-5:])}." if known else "It has no runs at all."
    raise NotFoundError(f"There is no run '{run}' in {mask_url(settings.queue)}. {there}")
