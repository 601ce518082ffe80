"""`longshore run`: run a file of jobs on this machine, and write a file of results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from longshore.cli import options


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file with the handlers.", show_default=False)
    ],
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="URLs to work on.", show_default=False)
    ] = None,
    url: options.Url = None,
    sitemap: options.SitemapOption = None,
    since: options.Since = None,
    urls_file: options.UrlsFile = None,
    jobs_file: options.JobsFile = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="K", help="Which handler. Needed if FILE has several.", show_default=False),
    ] = None,
    workers: Annotated[
        str | None, typer.Option(metavar="N", help=options.meaning("workers"), show_default=False)
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where the results go; - is standard output. Left out: results.jsonl, or, if that holds something "
            "else, a new file named after the run.",
            show_default=False,
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where the records that handlers emit go: .csv, .jsonl, .parquet or .sqlite; - is standard output. "
            "{kind} in the name makes a file for each kind.",
            show_default=False,
        ),
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", metavar="", help="With --items: without the columns of the job they came from.")
    ] = False,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID",
            help="The run to go on with, or to start. Left out: the one this command did not finish, or a new one.",
            show_default=False,
        ),
    ] = None,
    max_depth: options.MaxDepth = None,
    max_jobs: options.MaxJobs = None,
    concurrency: options.Concurrency = None,
    lease_seconds: options.LeaseSeconds = None,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Submit URLs or the jobs of a file, work on them with several processes, and write the results as JSONL.

    If it is interrupted or killed, the same command continues the run. Ctrl-C finishes the jobs in flight and
    stops; a second one gives them back and leaves. The exit code is 0 only if nothing failed. Limits of a worker
    (LONGSHORE_MAX_WORK and the like, or those of a profile) do not count here: the run is worked on to its end.
    """
    from longshore.cli.input_file import named_jobs
    from longshore.handlers.load import load_handlers
    from longshore.runs.export.items import items_file
    from longshore.runs.local.choose_handler import choose_handler
    from longshore.runs.local.growth_options import growth_limits
    from longshore.settings import resolve
    from longshore.ui.local.run_here import RunOrder, RunTarget, run_here

    settings = resolve(
        {
            "workers": workers,
            "concurrency": concurrency,
            "lease_seconds": lease_seconds,
            "profile": profile,
            "queue": queue,
            "debug": debug,
        }
    )
    source = named_jobs(settings, [*(urls or ()), *(url or ())], sitemap, since, urls_file, jobs_file)
    target = RunTarget(settings, run_id, out, items_file(items, out, bare=bare))
    target.check()
    limits = growth_limits(max_depth, max_jobs)
    handler = choose_handler(load_handlers(file), kind, file)
    _, worked = asyncio.run(run_here(RunOrder(target, file, handler, source, limits)))
    return worked.exit_code
