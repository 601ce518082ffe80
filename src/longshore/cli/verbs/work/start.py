"""`longshore start`: start a scraper by its name, here or for workers anywhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.runs.scrapers.start import Finished, Queued


def start(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the scraper in longshore.toml.", show_default=False)
    ],
    urls_file: options.UrlsFile = None,
    jobs_file: options.JobsFile = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Go on with the run that was not finished.")
    ] = False,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="ID", help="The run to start, or to go on with. Left out, a new one.", show_default=False
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Single mode: where the results go; - is standard output. Left out: results.jsonl, or, if that "
            "holds something else, a new file named after the run.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="N", help="Single mode: how many worker processes work on it.", show_default=False),
    ] = None,
    max_depth: options.MaxDepth = None,
    max_jobs: options.MaxJobs = None,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Start a scraper of longshore.toml as its mode says, and print JSON.

    Distributed: its jobs are put into the queue, and the JSON has the command that starts a worker for them. Single, or
    no mode: it is run here to its end, and never twice at a time; if it is killed, --resume continues it, and no
    job has two results. The exit code is 0 only if nothing failed.
    """
    from longshore.cli.input_file import input_file
    from longshore.runs.local.growth_options import growth_limits
    from longshore.runs.scrapers.registry import find_scraper
    from longshore.ui.local.scraper_start import start_scraper
    from longshore.ui.output import note, write_json
    from longshore.url import mask_url

    scraper = find_scraper(name)
    given = {"workers": workers, "profile": profile, "queue": queue, "debug": debug}
    source = None if urls_file is None and jobs_file is None else input_file(urls_file, jobs_file)
    limits = growth_limits(max_depth, max_jobs)
    done = asyncio.run(start_scraper(scraper, given, source, run_id, resume=resume, out=out, limits=limits))
    if out != "-":
        write_json(done)
    if queue is not None and scraper.distributed and mask_url(queue) != queue:
        note("The queue's URL holds a password and is not printed: set LONGSHORE_QUEUE where the workers run.")
    return exit_code(done)


def exit_code(done: Queued | Finished) -> int:
    """Return the exit code of the command."""
    codes = {"queued": 0, "completed": 0, "interrupted": 130}
    return codes.get(done.status, 1)
