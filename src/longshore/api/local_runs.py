"""Work on jobs on this machine, from a script or a notebook, as `longshore run` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longshore.api.loops import wait_for

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.handlers.worker_class import Worker
    from longshore.runs.scrapers.registry import Jobs
    from longshore.runs.scrapers.start import Finished
    from longshore.runs.sources import Source


def run(
    handlers: str | Path | Handler | type[Worker],
    urls: Jobs,
    *,
    kind: str | None = None,
    run: str | None = None,
    out: str | None = None,
    items: str | None = None,
    bare: bool = False,
    workers: int | None = None,
    concurrency: int | None = None,
    max_depth: int | None = None,
    max_jobs: int | None = None,
    profile: str | None = None,
    queue: str | None = None,
    progress: bool = True,
) -> Finished:
    """Submit jobs, work on them here to the end, and return how the run ended; the same as `longshore run`.

    `handlers` is a handler file, or a handler. One at the top level of a Python file is worked on by processes, which
    load that file. One that only this program has (a notebook's, a prompt's) must be an `async def`, and is worked on
    by one worker inside this program. `urls` is a URL, a file, a list or a function of URLs, payloads or jobs, or a
    source. A run that was not finished is continued by the same call, if `urls` is a file or a list.

    Failed jobs are counted in the answer, not raised. Without `out`, the results are only in the queue: see `results`.
    Progress goes to standard error, unless `progress` is False.
    """
    return wait_for(
        run_async(
            handlers,
            urls,
            kind=kind,
            run=run,
            out=out,
            items=items,
            bare=bare,
            workers=workers,
            concurrency=concurrency,
            max_depth=max_depth,
            max_jobs=max_jobs,
            profile=profile,
            queue=queue,
            progress=progress,
        )
    )


async def run_async(
    handlers: str | Path | Handler | type[Worker],
    urls: Jobs,
    *,
    kind: str | None = None,
    run: str | None = None,
    out: str | None = None,
    items: str | None = None,
    bare: bool = False,
    workers: int | None = None,
    concurrency: int | None = None,
    max_depth: int | None = None,
    max_jobs: int | None = None,
    profile: str | None = None,
    queue: str | None = None,
    progress: bool = True,
) -> Finished:
    """Do what `run` does in the event loop of the caller. Cancelling it stops the workers; the run can be continued."""
    from longshore.errors import UsageError
    from longshore.handlers.load import file_being_imported
    from longshore.runs.export.items import items_file
    from longshore.runs.local.growth_options import growth_limits
    from longshore.runs.local.handler_place import place_of
    from longshore.settings import resolve
    from longshore.ui.local.run_here import RunOrder, RunTarget, finished, run_here

    if (file := file_being_imported()) is not None:
        raise UsageError(
            f"longshore.run is called while {file.name} is imported, which every worker does. Put the call below "
            'if __name__ == "__main__":'
        )
    settings = resolve(
        {"workers": workers, "concurrency": concurrency, "profile": profile, "queue": queue},
    )
    target = RunTarget(
        settings, run, out, items_file(items, out, bare=bare), deliver=out is not None, quiet=not progress
    )
    target.check()
    limits = growth_limits(max_depth, max_jobs)
    place = place_of(handlers, kind)
    order = RunOrder(target, place.file, place.handler, source_from(urls), limits, place.own_handlers)
    return finished(*await run_here(order))


def source_from(urls: Jobs) -> Source:
    """Return the source of the jobs; text with a scheme is one URL, any other text the name of a file."""
    from longshore.runs.scrapers.registry import source_of
    from longshore.runs.sources.url_list import UrlList

    return UrlList([urls]) if isinstance(urls, str) and "://" in urls else source_of(urls)
