"""Start a scraper as its mode says: its jobs go into the queue, or it is run here to its end.

`longshore start` and `longshore.start` both call `start_scraper`. In single mode a scraper runs once at a time in a
folder, guarded by a file lock.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from longshore.clock import SystemClock
from longshore.errors import LongshoreError, UsageError
from longshore.handlers.load import load_handlers
from longshore.queue import Queue
from longshore.runs.control.growth_limits import GrowthLimits
from longshore.runs.export.results import check_results_out
from longshore.runs.local.choose_handler import choose_handler
from longshore.runs.local.defaults import HOME
from longshore.runs.open_queue import check_shared, open_or_create
from longshore.runs.scrapers.registry import Scraper
from longshore.runs.scrapers.resume import ScraperCheckpoints
from longshore.runs.scrapers.start import (
    Finished,
    Prepared,
    Queued,
    Start,
    SubmittedStart,
    prepare,
    settings_for,
    submit_start,
    worker_command,
    worker_variables,
)
from longshore.runs.sources import Source
from longshore.runs.submit.submission import Submission, check_run_id
from longshore.settings import Settings, export_dotenv
from longshore.system.file_lock import PROBE_SECONDS, FileLock
from longshore.system.private_files import make_private
from longshore.ui.local.local_run import LocalRun, work_through
from longshore.ui.local.run_here import finished
from longshore.ui.output import note
from longshore.ui.program import program, queue_flag
from longshore.ui.progress import submitting
from longshore.ui.words import counted
from longshore.worker.kit.proxy_setup import check_tools
from longshore.wrappers.differing_duplicates import advice


async def start_scraper(
    scraper: Scraper,
    given: Mapping[str, Any],
    source: Source | None,
    run: str | None,
    *,
    resume: bool,
    out: str | None,
    limits: GrowthLimits | None = None,
) -> Queued | Finished:
    """Start a scraper as its mode says; in single mode, return when its run has ended.

    `given` are the settings of this start; they come before those of the scraper.
    """
    if scraper.distributed:
        for flag, value in (("--out", out), ("--workers", given.get("workers"))):
            if value is not None:
                raise UsageError(f"{flag} is for single mode, and {scraper.name} is distributed. Leave it out.")
    settings = settings_for(scraper, given)
    if run is not None:
        check_run_id(run)
    check_shared(settings)
    export_dotenv()
    file = Path(scraper.handler)
    handler = choose_handler(load_handlers(file), scraper.kind, file)
    checkpoints = ScraperCheckpoints(HOME / "scrapers", scraper.name, settings.queue)
    start = Start(scraper, handler, checkpoints, source, run, resume, limits)
    if scraper.distributed:
        return await _distributed(start, settings)
    check_results_out(out)
    check_tools(settings)
    with _only_one(HOME / "scrapers", scraper.name):
        return await _single(start, settings, out)


async def _distributed(start: Start, settings: Settings) -> Queued:
    async with _entered(start, settings) as (_, entered):
        done = entered.submission
        if done.differing:
            note(f"{counted(done.differing.jobs, 'job')} left out as duplicates. {advice(done.differing)}.")
        return Queued(
            run_id=done.run_id,
            enqueued=done.submitted,
            duplicates=done.duplicates,
            worker_command=worker_command(program(), start.scraper, done.run_id, settings),
        )


async def _single(start: Start, settings: Settings, out: str | None) -> Finished:
    clock = SystemClock()
    began = clock.monotonic()
    async with _entered(start, settings) as (queue, entered):
        done = entered.submission
        again = f"{program()} start {start.scraper.name} --resume{queue_flag(settings)}"
        local = LocalRun(
            settings,
            Path(start.scraper.handler),
            out,
            done,
            began,
            resumed=entered.resumed,
            again=again,
            environment=worker_variables(start.scraper, settings),
        )
        worked = await work_through(queue, local, clock)
        if worked.over:
            start.checkpoints.remove(done.run_id)
        return finished(done, worked)


@asynccontextmanager
async def _entered(start: Start, settings: Settings) -> AsyncIterator[tuple[Queue, SubmittedStart]]:
    """Yield the queue after the jobs of the start were submitted to it."""
    prepared = prepare(start)
    if prepared.left is not None:
        name = start.scraper.name
        note(f"Run {prepared.left} of {name} was not finished; --resume --run {prepared.left} goes on with it.")
    async with open_or_create(settings) as queue:
        with _submission_shown(prepared) as progress:
            entered = await submit_start(queue, prepared, SystemClock(), progress=progress)
        yield queue, entered


@contextmanager
def _submission_shown(prepared: Prepared) -> Iterator[Callable[[Submission], None] | None]:
    if prepared.source is None:
        yield None
        return
    with submitting(prepared.source) as progress:
        yield progress


@contextmanager
def _only_one(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of this scraper. `LongshoreError` names the process that holds it already, and since when."""
    lock, holder_file = FileLock(folder / f"{name}.lock"), folder / f"{name}.running"
    try:
        make_private(folder)
        taken = lock.acquire(PROBE_SECONDS)
    except OSError as error:
        raise UsageError(f"{lock.path} cannot be written: {error.strerror or error}. Make it writable.") from error
    if not taken:
        holder = ""
        with suppress(OSError):
            holder = holder_file.read_text(encoding="utf-8").strip()
        raise LongshoreError(f"{name} runs already{holder and f': {holder}'}. Wait for its end, or stop it there.")
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        holder_file.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}\n", encoding="utf-8")
        yield
    finally:
        lock.release()
