"""`longshore submit`: put the jobs of a file into a queue."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.inputs import Input
    from longshore.runs.submission import Submission
    from longshore.settings import Settings


def submit(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which handler the jobs are for.", show_default=False)],
    urls_file: options.UrlsFile = None,
    jobs_file: options.JobsFile = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="The run to add to. Left out, a new one.", show_default=False)
    ] = None,
    priority: Annotated[int, typer.Option(metavar="N", help="Lower is worked on first.")] = 0,
    partition: Annotated[
        str, typer.Option(metavar="P", help="The slice of the run they belong to.", show_default=False)
    ] = "",
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Put the jobs of a file into the queue, and print JSON: run_id, submitted, duplicates.

    Submitting again is harmless: what the run knows already is counted as a duplicate. In a JSONL file a line is the
    payload itself, or {"payload": {…}} with any of key, priority, partition and not_before beside it.
    """
    from longshore.cli.output import write_json
    from longshore.cli.progress import submitting
    from longshore.runs.submission import check_file, check_run_id
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    source = source_of(urls_file, jobs_file)
    if not kind.strip():
        raise UsageError("The kind is empty. Name the handler the jobs are for.")
    options.priority(priority)
    if run is not None:
        check_run_id(run)
    with submitting(source):
        check_file(source)
    write_json(asyncio.run(_submit(settings, source, kind, run, priority, partition)))


async def _submit(
    settings: Settings, source: Input, kind: str, run: str | None, priority: int, partition: str
) -> Submission:
    from longshore.cli.opened import opened
    from longshore.cli.progress import submitting
    from longshore.clock import SystemClock
    from longshore.runs.submission import Plan, new_run_id, submit_file

    async with opened(settings) as queue:
        run_id = run or await new_run_id(queue, SystemClock())
        plan = Plan(run=run_id, kind=kind, priority=priority, partition=partition)
        with submitting(source) as progress:
            return await submit_file(queue, source, plan, progress=progress)


def source_of(urls_file: str | None, jobs_file: str | None) -> Input:
    """The one file the options name."""
    from longshore.runs.inputs import Format, Input

    if (urls_file is None) == (jobs_file is None):
        raise UsageError(
            "Say where the jobs are: --urls-file FILE or --jobs-file FILE, one of them. - is standard input."
        )
    path = urls_file if urls_file is not None else jobs_file or ""
    if path == "-" and sys.stdin.isatty():
        from longshore.cli.output import note

        note("Reading from the terminal, one line a job; Ctrl-D ends.")
    return Input(path, Format.URLS if urls_file is not None else Format.JOBS)
