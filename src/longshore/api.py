"""The commands as plain functions, for scripts: each returns when its work is done.

They may be called from any thread, also from one in which an event loop runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from longshore.queue import Count
    from longshore.runs.scrapers.registry import Jobs, Scraper
    from longshore.runs.scrapers.start import Finished, Queued

T = TypeVar("T")


def start(
    scraper: str | Scraper,
    *,
    urls: Jobs | None = None,
    run: str | None = None,
    resume: bool = False,
    out: str | None = None,
    workers: int | None = None,
    max_depth: int | None = None,
    max_jobs: int | None = None,
    profile: str | None = None,
    queue: str | None = None,
) -> Queued | Finished:
    """Start a scraper by its name in `longshore.toml`, or one that is made here; the same as `longshore start`.

    In distributed mode, return when its jobs are in the queue, with the run's id and the workers' command. In single
    mode, run it here with `workers` processes, and return when the run has ended. `urls` is a file, a list or a
    function of URLs, payloads or jobs, or a source. `max_depth` and `max_jobs` limit follow-on jobs.
    """
    from longshore.runs.local.growth import growth_limits
    from longshore.runs.scrapers.registry import find_scraper, source_of
    from longshore.ui.local.scraper_start import start_scraper

    found = find_scraper(scraper) if isinstance(scraper, str) else _checked(scraper)
    source = None if urls is None else source_of(urls)
    given = {"workers": workers, "profile": profile, "queue": queue}
    limits = growth_limits(max_depth, max_jobs)
    return _wait_for(start_scraper(found, given, source, run, resume=resume, out=out, limits=limits))


def stats(run: str, *, queue: str | None = None) -> Count:
    """Return how many jobs of a run are `pending`, `claimed`, `completed`, `failed`, `cancelled` and `remaining`.

    Raise `NotFoundError` if the queue does not have the run.
    """
    return _wait_for(_stats(run, queue))


async def _stats(run: str, queue: str | None) -> Count:
    import msgspec

    from longshore.queue import totals
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        return msgspec.structs.replace(totals(await counts_of(opened, run, settings)), run=run)


def _checked(scraper: Scraper) -> Scraper:
    from pathlib import Path

    from longshore.errors import SettingsError

    if faults := list(scraper.faults(Path())):
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise SettingsError(f"The scraper {scraper.name} cannot be used:{listed}")
    return scraper


def _wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # `asyncio.run` in the main thread handles Ctrl-C.
        return asyncio.run(coroutine)
    from longshore.system.loop_thread import LoopThread

    thread = LoopThread("longshore")
    try:
        return thread.call(coroutine)
    finally:
        thread.close()
