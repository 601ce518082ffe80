"""Starting a scraper: which run, which jobs, with which settings; and the command its workers are started with.

The order, so that whatever dies can be gone on with: the checkpoint names the run, then the jobs are submitted, then
the checkpoint says that all of them are. Submitting again is harmless, so a start that died in between is repeated.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longshore.clock import Clock
from longshore.errors import InputFileError, NotFoundError, UsageError
from longshore.handlers.handler import Handler
from longshore.job import DEFAULT_MAX_ATTEMPTS
from longshore.queue import Queue, totals
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.runs.scrapers.checkpoint import Checkpoint, ResumeState
from longshore.runs.scrapers.registry import Scraper
from longshore.runs.sources import Source, source_in
from longshore.runs.submit.input_files import InputFile
from longshore.runs.submit.submission import Submission, SubmissionPlan, check_file, new_run_id, submit_file
from longshore.settings import TABLE, Settings, resolve, show
from longshore.url import mask_url

_OPTIONS = (
    "profile",
    "concurrency",
    "min_delay_seconds",
    "max_delay_seconds",
    "batch_size",
    "max_work",
    "max_empty_polls",
    "max_idle_hours",
    "poll_interval",
    "lease_seconds",
    "log_format",
)
"""The settings that `longshore work` has options for; the others reach it as variables."""
_NOT_A_WORKERS = ("workers", "stagger", "strict_partitions")
_ENVIRONMENT = ("environment", ".env")
_ASKED = ("command line", *_ENVIRONMENT)
"""Where a person says something about this start rather than about the scraper."""
_NOT_AGAIN = {"urls": "-"}
"""In the place of a file: the jobs came from a pipe or a program, and cannot be read again from here."""


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """A distributed scraper was started: its jobs are in the queue."""

    status: str = "queued"
    run_id: str
    enqueued: int
    duplicates: int
    worker_command: str
    """Starts a worker for it, from the folder of the scraper; the queue's URL comes from the environment."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A single-mode scraper was run here."""

    status: str
    """`completed`; `failed` where some jobs did; before the end `interrupted` (by a person) or `stopped`."""
    run_id: str
    enqueued: int
    duplicates: int
    completed: int
    failed: int
    cancelled: int
    remaining: int
    results: str | None
    """The file with the results; None before the end."""


def settings_for(scraper: Scraper, said: Mapping[str, Any]) -> Settings:
    """The settings as they stand for a scraper: its own go before the files, and after what was asked of this start."""
    plain = resolve(said)
    own = {name: value for name, value in scraper.settings.items() if plain.source(name).level not in _ASKED}
    return resolve({**said, **own})


def worker_variables(scraper: Scraper, settings: Settings) -> dict[str, str]:
    """The settings of a scraper that count in `settings_for`, as environment variables of a worker."""
    return {
        TABLE[name].variable: settings.shown(name)
        for name in scraper.settings
        if name not in _NOT_A_WORKERS and settings.source(name).level == "command line"
    }


def worker_command(program: str, scraper: Scraper, run: str, settings: Settings) -> str:
    """What starts a worker for a run, as it is typed into a shell in the scraper's folder. Holds no password.

    It has the settings of the scraper, but for those of which the environment of this start says something else: it
    goes before them, and a worker that is started in it finds them there.
    """
    own = {
        name: value
        for name, value in scraper.settings.items()
        if name not in _NOT_A_WORKERS and settings.source(name).level not in _ENVIRONMENT
    }
    if settings.source("profile").level == "command line":
        own["profile"] = settings.profile
    variables = [f"{TABLE[name].variable}={shlex.quote(show(own[name]))}" for name in own if name not in _OPTIONS]
    arguments = [scraper.handler, "--run", run, "--until-done"]
    for name in _OPTIONS:
        if name in own:
            arguments += [TABLE[name].flag, show(own[name])]
    if settings.source("queue").level == "command line" and mask_url(settings.queue) == settings.queue:
        arguments += ["--queue", settings.queue]
    return " ".join([*variables, program, "work", *map(shlex.quote, arguments)])


@dataclass(frozen=True)
class Start:
    """What was asked for: a scraper, and whatever differs from what the registry says."""

    scraper: Scraper
    handler: Handler
    checkpoint: Checkpoint
    source: Source | None = None
    """Jobs that were named with the start."""
    run: str | None = None
    resume: bool = False
    limits: GrowthLimits | None = None
    """How far the run may grow by follow-on jobs; None leaves that as it is."""


@dataclass(frozen=True)
class Prepared:
    """A start that can be carried out."""

    start: Start
    standing: ResumeState | None
    """What it goes on with."""
    source: Source | None
    """What is to be submitted; None where everything is in the queue already."""
    left: str | None
    """A run of this scraper that was not finished and is not gone on with."""


def prepare(start: Start) -> Prepared:
    """Decide what to go on with and which jobs to read, and check those, before anything is touched.

    `NotFoundError` where there is nothing to go on with, `UsageError` where nobody says which jobs.
    """
    scraper = start.scraper
    if not start.resume:
        before = start.checkpoint.recall()
        left = before is not None and before.run != start.run and not (scraper.distributed and before.submitted)
        source = _checked(start.source or scraper.jobs, scraper)
        return Prepared(start, None, source, before.run if before is not None and left else None)
    standing = start.checkpoint.recall(start.run)
    if standing is None and start.run is not None:
        # Delivered before, or started elsewhere.
        standing = ResumeState(start.run, submitted=True)
    if standing is None:
        raise NotFoundError(
            f"{scraper.name} has no run to go on with here. Leave --resume out to start a new one, or name one with "
            "--run."
        )
    if start.source is not None:
        return Prepared(start, standing, _checked(start.source, scraper), None)
    # A distributed run is gone on with by submitting what is new; one that is worked on here, by working.
    if standing.submitted and not scraper.distributed:
        return Prepared(start, standing, None, None)
    return Prepared(start, standing, _checked(_again(standing, scraper), scraper), None)


def _again(standing: ResumeState, scraper: Scraper) -> Source | None:
    if standing.named is None:
        return scraper.jobs
    if standing.named == _NOT_AGAIN:
        raise UsageError(
            f"The jobs of run {standing.run} came from a pipe or a program, and are not all submitted. Give them again."
        )
    return source_in(standing.named)[0]


def _checked(source: Source | None, scraper: Scraper) -> Source:
    if source is None:
        raise UsageError(
            f'{scraper.name} has no source of jobs. Name one with --urls-file, or write urls = "urls.txt" into its '
            "table."
        )
    check_file(source)
    return source


@dataclass(frozen=True)
class Entered:
    """The jobs of a start are in the queue."""

    submission: Submission
    resumed: bool


async def enter(
    queue: Queue, prepared: Prepared, clock: Clock, *, progress: Callable[[Submission], None] | None = None
) -> Entered:
    """Submit the jobs, and note in the checkpoint how far that is."""
    start, standing = prepared.start, prepared.standing
    if standing is not None:
        await _check_known(queue, start, standing)
    else:
        run = start.run or await new_run_id(queue, clock)
        standing = ResumeState(run, _named(start.source))
        start.checkpoint.note(standing)
        if start.scraper.distributed:
            start.checkpoint.forget_submitted(but=run)
    if start.limits is not None:
        await set_limits(queue, standing.run, start.limits)
    if prepared.source is None:
        return Entered(Submission(standing.run), resumed=True)
    retries = start.handler.retries
    plan = SubmissionPlan(
        run=standing.run,
        kind=start.handler.kind,
        partitions=frozenset(start.scraper.partitions) or None,
        max_attempts=DEFAULT_MAX_ATTEMPTS if retries is None else retries + 1,
    )
    try:
        submission = await submit_file(queue, prepared.source, plan, progress=progress)
    except InputFileError:
        if not await queue.stats(standing.run):
            # Nothing usable came: there is no run to go on with.
            start.checkpoint.forget(standing.run)
        raise
    if not standing.submitted:
        start.checkpoint.note(msgspec.structs.replace(standing, submitted=True))
    return Entered(submission, resumed=prepared.standing is not None)


async def _check_known(queue: Queue, start: Start, standing: ResumeState) -> None:
    """`NotFoundError` where the run to go on with is not there, or is over."""
    counts = await queue.stats(standing.run)
    if standing.submitted and not counts:
        raise NotFoundError(
            f"There is no run '{standing.run}' of {start.scraper.name} in this queue to go on with. Check --queue and "
            "--run, or leave --resume out to start a new one."
        )
    if start.scraper.distributed and start.run is None and standing.submitted and not totals(counts).remaining:
        raise NotFoundError(
            f"Run {standing.run} of {start.scraper.name} is finished. Leave --resume out to start a new one, or add to "
            f"it: --run {standing.run}."
        )


def _named(source: Source | None) -> dict[str, str] | None:
    """How the jobs that were named with the start are found again."""
    if source is None:
        return None
    if isinstance(source, InputFile) and source.rereadable:
        return {str(source.format): str(Path(source.path).resolve())}
    return _NOT_AGAIN
