"""`longshore start`: start a scraper by its name, here or for workers anywhere."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.errors import LongshoreError, UsageError

if TYPE_CHECKING:
    from longshore.runs.control.growth_limits import GrowthLimits
    from longshore.runs.scrapers.registry import Scraper
    from longshore.runs.scrapers.start import Finished, Prepared, Queued, Start
    from longshore.runs.sources import Source
    from longshore.settings import Settings


def start(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which scraper of longshore.toml.", show_default=False)],
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
            help="Single mode: where the results go; - is standard output. Left out: results.jsonl, or, where that "
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
    no mode: it is run here to its end, one at a time; whatever dies on the way, --resume goes on where it was, and no
    job has two results. The exit code is 0 only if nothing failed.
    """
    from longshore.cli.verbs.work.submit import file_of, limits_said
    from longshore.runs.scrapers.registry import find_scraper
    from longshore.ui.output import note, write_json
    from longshore.url import mask_url

    scraper = find_scraper(name)
    said = {"workers": workers, "profile": profile, "queue": queue, "debug": debug}
    source = None if urls_file is None and jobs_file is None else file_of(urls_file, jobs_file)
    limits = limits_said(max_depth, max_jobs)
    done = asyncio.run(started(scraper, said, source, run_id, resume=resume, out=out, limits=limits))
    if out != "-":
        write_json(done)
    if queue is not None and scraper.distributed and mask_url(queue) != queue:
        note("The queue's URL holds a password and is not printed: set LONGSHORE_QUEUE where the workers run.")
    return exit_code(done)


def exit_code(done: Queued | Finished) -> int:
    """What the command ends with."""
    codes = {"queued": 0, "completed": 0, "interrupted": 130}
    return codes.get(done.status, 1)


async def started(
    scraper: Scraper,
    said: Mapping[str, Any],
    source: Source | None,
    run: str | None,
    *,
    resume: bool,
    out: str | None,
    limits: GrowthLimits | None = None,
) -> Queued | Finished:
    """Start a scraper as its mode says; in single mode this returns when it is over."""
    from longshore.cli.verbs.work.run import pick
    from longshore.handlers.load import load_handlers
    from longshore.runs.export.output_file import check_out
    from longshore.runs.export.results import DEFAULT_OUT
    from longshore.runs.open_queue import check_shared
    from longshore.runs.scrapers.resume import ScraperCheckpoints
    from longshore.runs.scrapers.start import Start, settings_for
    from longshore.runs.submit.submission import check_run_id
    from longshore.settings import export_dotenv
    from longshore.ui.local_run import HOME
    from longshore.worker.kit.proxy_setup import check_tools

    if scraper.distributed:
        for flag, value in (("--out", out), ("--workers", said.get("workers"))):
            if value is not None:
                raise UsageError(f"{flag} is for single mode, and {scraper.name} is distributed. Leave it out.")
    settings = settings_for(scraper, said)
    if run is not None:
        check_run_id(run)
    check_shared(settings)
    export_dotenv()
    file = Path(scraper.handler)
    handler = pick(load_handlers(file), scraper.kind, file)
    checkpoints = ScraperCheckpoints(HOME / "scrapers", scraper.name, settings.queue)
    asked = Start(scraper, handler, checkpoints, source, run, resume, limits)
    if scraper.distributed:
        return await _distributed(asked, settings)
    check_out(DEFAULT_OUT if out is None else out)
    check_tools(settings)
    with _alone(HOME / "scrapers", scraper.name):
        return await _single(asked, settings, out)


async def _distributed(asked: Start, settings: Settings) -> Queued:
    from longshore.runs.scrapers.start import Queued, worker_command
    from longshore.ui.program import program

    async with _entered(asked, settings) as (_, entered):
        done = entered.submission
        return Queued(
            run_id=done.run_id,
            enqueued=done.submitted,
            duplicates=done.duplicates,
            worker_command=worker_command(program(), asked.scraper, done.run_id, settings),
        )


async def _single(asked: Start, settings: Settings, out: str | None) -> Finished:
    from longshore.clock import SystemClock
    from longshore.runs.scrapers.start import Finished, worker_variables
    from longshore.ui.local_run import LocalRun, work_through
    from longshore.ui.program import program
    from longshore.ui.run_summary import queue_flag

    clock = SystemClock()
    began = clock.monotonic()
    async with _entered(asked, settings) as (queue, entered):
        done = entered.submission
        again = f"{program()} start {asked.scraper.name} --resume{queue_flag(settings)}"
        local = LocalRun(
            settings,
            Path(asked.scraper.handler),
            out,
            done,
            began,
            resumed=entered.resumed,
            again=again,
            environment=worker_variables(asked.scraper, settings),
        )
        worked = await work_through(queue, local, clock)
        if worked.delivered is not None:
            asked.checkpoints.remove(done.run_id)
        count = worked.count
        over = "failed" if count.failed else "completed"
        return Finished(
            status=over if worked.delivered else "interrupted" if worked.interrupted else "stopped",
            run_id=done.run_id,
            enqueued=done.submitted,
            duplicates=done.duplicates,
            completed=count.completed,
            failed=count.failed,
            cancelled=count.cancelled,
            remaining=count.remaining,
            results=worked.delivered.place if worked.delivered else None,
        )


@asynccontextmanager
async def _entered(asked: Start, settings: Settings) -> AsyncIterator[Any]:
    """The queue, with the jobs of a start in it."""
    from longshore.clock import SystemClock
    from longshore.runs.open_queue import opened
    from longshore.runs.scrapers.start import prepare, submit_start
    from longshore.ui.output import note
    from longshore.ui.progress import submitting

    prepared = prepare(asked)
    if prepared.left is not None:
        name = asked.scraper.name
        note(f"Run {prepared.left} of {name} was not finished; --resume --run {prepared.left} goes on with it.")
    async with opened(settings) as queue:
        with _shown(prepared, submitting) as progress:
            entered = await submit_start(queue, prepared, SystemClock(), progress=progress)
        yield queue, entered


@contextmanager
def _shown(prepared: Prepared, submitting: Any) -> Iterator[Any]:
    if prepared.source is None:
        yield None
        return
    with submitting(prepared.source) as progress:
        yield progress


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Be the only one that runs this scraper here. `LongshoreError` says who does, and since when."""
    from longshore.system.file_lock import PROBE_SECONDS, FileLock

    lock, who = FileLock(folder / f"{name}.lock"), folder / f"{name}.running"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = lock.acquire(PROBE_SECONDS)
    except OSError as error:
        raise UsageError(f"{lock.path} cannot be written: {error.strerror or error}. Make it writable.") from error
    if not taken:
        said = ""
        with suppress(OSError):
            said = who.read_text(encoding="utf-8").strip()
        raise LongshoreError(f"{name} runs already{said and f': {said}'}. Wait for its end, or stop it there.")
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        who.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}\n", encoding="utf-8")
        yield
    finally:
        lock.release()
