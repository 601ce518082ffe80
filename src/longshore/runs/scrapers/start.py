"""Start a scraper: choose the run, the jobs and the settings, and print the command that starts its workers.

The order makes every start resumable: the checkpoint names the run, then the jobs are submitted, then the checkpoint
says that all jobs are submitted. Submitting a job twice is harmless, so a start that died in between is repeated.
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
from longshore.runs.scrapers.registry import Scraper
from longshore.runs.scrapers.resume import ResumeState, ScraperCheckpoints
from longshore.runs.sources import Source, source_in
from longshore.runs.submit.input_files import InputFile
from longshore.runs.submit.shared_urls import by_handler
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
_NOT_FOR_WORKERS = ("workers", "stagger", "strict_partitions")
_ENVIRONMENT = ("environment", ".env")
_THIS_START = ("command line", *_ENVIRONMENT)
"""Levels of settings that belong to this start rather than to the scraper."""
_NOT_REREADABLE = {"urls": "-"}
"""Stored instead of a file: the jobs came from a pipe or a program and cannot be read a second time."""


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """The result of starting a distributed scraper: its jobs are in the queue."""

    status: str = "queued"
    run_id: str
    enqueued: int
    duplicates: int
    worker_command: str
    """Shell command that starts a worker from the scraper's folder; the queue's URL comes from the environment."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The result of running a single-mode scraper on this machine."""

    status: str
    """`completed`; `failed` if some jobs failed; if the run is not over, `interrupted` (by a person) or `stopped`."""
    run_id: str
    enqueued: int
    duplicates: int
    completed: int
    failed: int
    cancelled: int
    remaining: int
    results: str | None
    """The file with the results; None if the run is not over."""


def settings_for(scraper: Scraper, given: Mapping[str, Any]) -> Settings:
    """Return the settings for a scraper.

    The scraper's own settings override the settings files; the command line and the environment override both.
    """
    plain = resolve(given)
    own = {name: value for name, value in scraper.settings.items() if plain.source(name).level not in _THIS_START}
    return resolve({**given, **own})


def worker_variables(scraper: Scraper, settings: Settings) -> dict[str, str]:
    """Return the scraper's own settings that `settings_for` applied, as environment variables of a worker."""
    return {
        TABLE[name].variable: settings.shown(name)
        for name in scraper.settings
        if name not in _NOT_FOR_WORKERS and settings.source(name).level == "command line"
    }


def worker_command(program: str, scraper: Scraper, run: str, settings: Settings) -> str:
    """Return the shell command that starts a worker for a run, in the scraper's folder. It holds no password.

    It contains the scraper's own settings, except those that the environment of this start overrides: a worker started
    in the same environment finds these there.
    """
    own = {
        name: value
        for name, value in scraper.settings.items()
        if name not in _NOT_FOR_WORKERS and settings.source(name).level not in _ENVIRONMENT
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
    """A requested start: a scraper, and everything that differs from the registry."""

    scraper: Scraper
    handler: Handler
    checkpoints: ScraperCheckpoints
    source: Source | None = None
    """A source given with the start; None uses the scraper's own."""
    run: str | None = None
    resume: bool = False
    limits: GrowthLimits | None = None
    """How far the run may grow by follow-on jobs; None leaves the limits unchanged."""


@dataclass(frozen=True)
class Prepared:
    """A checked start that can be carried out."""

    start: Start
    resumed: ResumeState | None
    """The run that is resumed; None for a new run."""
    source: Source | None
    """The jobs to submit; None if all are in the queue already."""
    left: str | None
    """An unfinished run of this scraper that is not resumed."""


def prepare(start: Start) -> Prepared:
    """Decide which run to resume and which jobs to read, and check the input before anything is changed.

    Raise `NotFoundError` if there is no run to resume, `UsageError` if no source of jobs is given.
    """
    scraper = start.scraper
    if not start.resume:
        before = start.checkpoints.load()
        left = before is not None and before.run != start.run and not (scraper.distributed and before.submitted)
        source = _checked(start.source or scraper.jobs, start)
        return Prepared(start, None, source, before.run if before is not None and left else None)
    resumed = start.checkpoints.load(start.run)
    if resumed is None and start.run is not None:
        # The run was delivered before, or started on another machine.
        resumed = ResumeState(start.run, submitted=True)
    if resumed is None:
        raise NotFoundError(
            f"{scraper.name} has no run to resume here. Leave --resume out to start a new one, or name one with --run."
        )
    if start.source is not None:
        return Prepared(start, resumed, _checked(start.source, start), None)
    # Resuming a distributed run submits new jobs; resuming a single-mode run works on the jobs already submitted.
    if resumed.submitted and not scraper.distributed:
        return Prepared(start, resumed, None, None)
    return Prepared(start, resumed, _checked(_source_again(resumed, scraper), start), None)


def _source_again(resumed: ResumeState, scraper: Scraper) -> Source | None:
    if resumed.named is None:
        return scraper.jobs
    if resumed.named == _NOT_REREADABLE:
        raise UsageError(
            f"The jobs of run {resumed.run} came from a pipe or a program and are not all submitted. Give them again."
        )
    return source_in(resumed.named)[0]


def _checked(source: Source | None, start: Start) -> Source:
    if source is None:
        raise UsageError(
            f'{start.scraper.name} has no source of jobs. Name one with --urls-file, or write urls = "urls.txt" into '
            "its table."
        )
    check_file(source, start.handler.kind, start.handler.identities, by_handler)
    return source


@dataclass(frozen=True)
class SubmittedStart:
    """A start whose jobs are in the queue."""

    submission: Submission
    resumed: bool


async def submit_start(
    queue: Queue, prepared: Prepared, clock: Clock, *, progress: Callable[[Submission], None] | None = None
) -> SubmittedStart:
    """Submit the jobs, and write the progress to the checkpoint."""
    start, state = prepared.start, prepared.resumed
    if state is not None:
        await _check_known(queue, start, state)
    else:
        run = start.run or await new_run_id(queue, clock)
        state = ResumeState(run, _stored_source(start.source))
        start.checkpoints.save(state)
        if start.scraper.distributed:
            start.checkpoints.remove_submitted(keep=run)
    if start.limits is not None:
        await set_limits(queue, state.run, start.limits)
    if prepared.source is None:
        return SubmittedStart(Submission(state.run), resumed=True)
    retries = start.handler.retries
    plan = SubmissionPlan(
        run=state.run,
        kind=start.handler.kind,
        partitions=frozenset(start.scraper.partitions) or None,
        max_attempts=DEFAULT_MAX_ATTEMPTS if retries is None else retries + 1,
        identities=start.handler.identities,
    )
    try:
        submission = await submit_file(queue, prepared.source, plan, progress=progress)
    except InputFileError:
        if not await queue.stats(state.run):
            # No job was submitted, so there is no run to resume.
            start.checkpoints.remove(state.run)
        raise
    if not state.submitted:
        start.checkpoints.save(msgspec.structs.replace(state, submitted=True))
    return SubmittedStart(submission, resumed=prepared.resumed is not None)


async def _check_known(queue: Queue, start: Start, state: ResumeState) -> None:
    """Raise `NotFoundError` if the run to resume is not in the queue, or is finished."""
    counts = await queue.stats(state.run)
    if state.submitted and not counts:
        raise NotFoundError(
            f"There is no run '{state.run}' of {start.scraper.name} in this queue to resume. Check --queue and "
            "--run, or leave --resume out to start a new one."
        )
    if start.scraper.distributed and start.run is None and state.submitted and not totals(counts).remaining:
        raise NotFoundError(
            f"Run {state.run} of {start.scraper.name} is finished. Leave --resume out to start a new one, or add to "
            f"it: --run {state.run}."
        )


def _stored_source(source: Source | None) -> dict[str, str] | None:
    """Return the form in which the checkpoint stores the source given with the start."""
    if source is None:
        return None
    if isinstance(source, InputFile) and source.rereadable:
        return {str(source.format): str(Path(source.path).resolve())}
    return _NOT_REREADABLE
