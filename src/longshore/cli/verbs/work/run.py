"""`longshore run`: run a file of jobs on this machine, and write a file of results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import InputFileError

if TYPE_CHECKING:
    from longshore.handlers.handler import Handler
    from longshore.runs.control.growth_limits import GrowthLimits
    from longshore.runs.scrapers.resume import CommandCheckpoint
    from longshore.runs.sources import Source
    from longshore.settings import Settings


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file with the handlers.", show_default=False)
    ],
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
    """Submit the jobs of a file, work on them with several processes, and write the results as JSONL.

    If it is interrupted or killed, the same command continues the run. Ctrl-C finishes the jobs in flight and
    stops; a second one gives them back and leaves. The exit code is 0 only if nothing failed. Limits of a worker
    (LONGSHORE_MAX_WORK and the like, or those of a profile) do not count here: the run is worked on to its end.
    """
    from longshore.cli.input_file import input_file
    from longshore.handlers.load import load_handlers
    from longshore.runs.export.results import check_results_out
    from longshore.runs.local.choose_handler import choose_handler
    from longshore.runs.local.defaults import HOME
    from longshore.runs.local.growth import growth_limits
    from longshore.runs.open_queue import check_shared
    from longshore.runs.scrapers.resume import CommandCheckpoint
    from longshore.runs.submit.shared_urls import by_handler
    from longshore.runs.submit.submission import check_file, check_run_id
    from longshore.settings import export_dotenv, resolve
    from longshore.ui.progress import submitting
    from longshore.worker.kit.proxy_setup import check_tools

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
    source = input_file(urls_file, jobs_file)
    if run_id is not None:
        check_run_id(run_id)
    check_results_out(out)
    check_shared(settings)
    check_tools(settings)
    export_dotenv()
    handler = choose_handler(load_handlers(file), kind, file)
    with submitting(source):
        check_file(source, handler.kind, handler.identities, by_handler)
    checkpoint = CommandCheckpoint(
        folder=HOME / "runs",
        queue=settings.queue,
        handler_file=str(file.resolve()),
        input=source.path if source.path == "-" else str(Path(source.path).resolve()),
        kind=handler.kind,
    )
    limits = growth_limits(max_depth, max_jobs)
    return asyncio.run(_run(settings, file, handler, source, out, run_id, checkpoint, limits))


async def _run(
    settings: Settings,
    file: Path,
    handler: Handler,
    source: Source,
    out: str | None,
    run_id: str | None,
    checkpoint: CommandCheckpoint,
    limits: GrowthLimits | None,
) -> int:
    from longshore.clock import SystemClock
    from longshore.job import DEFAULT_MAX_ATTEMPTS
    from longshore.runs.open_queue import open_or_create
    from longshore.runs.submit.submission import SubmissionPlan, new_run_id, submit_file
    from longshore.ui.local.local_run import LocalRun, work_through
    from longshore.ui.progress import submitting
    from longshore.worker.lifecycle.egress import Egress

    clock = SystemClock()
    began = clock.monotonic()
    # Before anything is submitted: a check that cannot be made is an error.
    Egress.of(settings)
    async with open_or_create(settings) as queue:
        unfinished = None if run_id else checkpoint.load()
        run = run_id or unfinished or await new_run_id(queue, clock)
        if run_id is None and unfinished is None:
            checkpoint.save(run)
        if limits is not None:
            from longshore.runs.control.growth_limits import set_limits

            await set_limits(queue, run, limits)
        attempts = DEFAULT_MAX_ATTEMPTS if handler.retries is None else handler.retries + 1
        plan = SubmissionPlan(run=run, kind=handler.kind, max_attempts=attempts, identities=handler.identities)
        try:
            with submitting(source) as progress:
                submission = await submit_file(queue, source, plan, progress=progress)
        except InputFileError:
            # The pipe had no valid job: there is no run to go on with.
            if not await queue.stats(run):
                checkpoint.remove(run)
            raise
        local = LocalRun(settings, file, out, submission, began, resumed=unfinished is not None)
        worked = await work_through(queue, local, clock)
        if worked.delivered is not None:
            checkpoint.remove(run)
        return worked.exit_code
