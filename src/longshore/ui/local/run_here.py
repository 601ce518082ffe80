"""A run of jobs on this machine, from its first job to its results: `longshore run` and `longshore.run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from rich.console import Console

from longshore.clock import Clock, SystemClock
from longshore.errors import InputFileError
from longshore.extensions.find import find
from longshore.extensions.published_code import check_not_pinned
from longshore.extensions.shared_state import SharedState
from longshore.handlers.handler import Handler
from longshore.job import DEFAULT_MAX_ATTEMPTS
from longshore.queue import Queue
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.runs.export.items import ItemsFile
from longshore.runs.export.results import check_results_out
from longshore.runs.local.defaults import HOME
from longshore.runs.open_queue import check_shared, open_or_create
from longshore.runs.scrapers.resume import CommandCheckpoint
from longshore.runs.scrapers.start import Finished
from longshore.runs.sources import Source
from longshore.runs.submit.shared_urls import by_handler
from longshore.runs.submit.submission import (
    Submission,
    SubmissionPlan,
    check_file,
    check_run_id,
    new_run_id,
    submit_file,
)
from longshore.settings import Settings, export_dotenv
from longshore.ui.local.local_run import LocalRun, Worked, work_through
from longshore.ui.progress import submitting
from longshore.ui.submission_words import note_left_out
from longshore.worker.kit.proxy_setup import check_tools
from longshore.worker.lifecycle.egress import Egress


@dataclass(frozen=True)
class RunTarget:
    """The settings of a run on this machine, its id if one is given, and the place of its results."""

    settings: Settings
    run: str | None = None
    out: str | None = None
    items: ItemsFile | None = None
    deliver: bool = True
    """Whether the results are written to a file."""
    quiet: bool = False
    """Whether nothing is printed."""

    def check(self) -> None:
        """Raise `UsageError`, before anything is read or changed, if the run could not be made or delivered."""
        if self.run is not None:
            check_run_id(self.run)
        if self.deliver:
            check_results_out(self.out)
        check_shared(self.settings)
        check_tools(self.settings)
        export_dotenv()


@dataclass(frozen=True)
class RunOrder:
    """Jobs to be worked on here, and the handler they are for.

    If the source has a `fingerprint`, the same order again continues a run that was not finished.
    """

    target: RunTarget
    handler_file: Path
    """The file that worker processes load; for handlers of this program only, a name that tells them from others."""
    handler: Handler
    source: Source
    limits: GrowthLimits | None = None
    own_handlers: Mapping[str, Handler] | None = None
    """Handlers that only this program has; see `Campaign`."""


async def run_here(order: RunOrder) -> tuple[Submission, Worked]:
    """Submit the jobs and work on them to the end; an unfinished run of the same order is continued."""
    clock, target = SystemClock(), order.target
    handler, settings = order.handler, target.settings
    with _submission_shown(order):
        check_file(order.source, handler.kind, handler.identities, by_handler)
    began = clock.monotonic()
    checkpoint = _Checkpoint.of(order)
    # Before anything is submitted: a check that cannot be made is an error.
    Egress.of(settings)
    async with open_or_create(settings) as queue:
        run, resumed = await _run_id(queue, target.run, checkpoint, clock)
        await check_not_pinned(find(queue, SharedState), run, "work")
        if order.limits is not None:
            await set_limits(queue, run, order.limits)
        attempts = DEFAULT_MAX_ATTEMPTS if handler.retries is None else handler.retries + 1
        plan = SubmissionPlan(run=run, kind=handler.kind, max_attempts=attempts, identities=handler.identities)
        try:
            with _submission_shown(order) as progress:
                submission = await submit_file(queue, order.source, plan, progress=progress)
        except InputFileError:
            # The pipe had no valid job: there is no run to go on with.
            if not await queue.stats(run):
                checkpoint.remove(run)
            raise
        if not target.quiet:
            note_left_out(order.source)
        local = LocalRun(
            settings,
            order.handler_file,
            target.out,
            submission,
            began,
            resumed=resumed,
            items=target.items,
            deliver=target.deliver,
            own_handlers=order.own_handlers,
        )
        worked = await work_through(queue, local, clock, Console(quiet=True) if target.quiet else None)
        if worked.over:
            checkpoint.remove(run)
        return submission, worked


def finished(submission: Submission, worked: Worked) -> Finished:
    """Return how a run on this machine ended, as scripts and `longshore start` get it."""
    count = worked.count
    over = "failed" if count.failed else "completed"
    return Finished(
        status=over if worked.over else "interrupted" if worked.interrupted else "stopped",
        run_id=submission.run_id,
        enqueued=submission.submitted,
        duplicates=submission.duplicates,
        completed=count.completed,
        failed=count.failed,
        cancelled=count.cancelled,
        remaining=count.remaining,
        results=worked.delivered.place if worked.delivered else None,
    )


@runtime_checkable
class _Recognised(Protocol):
    @property
    def fingerprint(self) -> str | None:
        """The same for the same jobs; None if that cannot be known."""


@dataclass(frozen=True)
class _Checkpoint:
    """The checkpoint of an order; none for jobs that cannot be told from others."""

    file: CommandCheckpoint | None

    @classmethod
    def of(cls, order: RunOrder) -> _Checkpoint:
        same = order.source.fingerprint if isinstance(order.source, _Recognised) else None
        if same is None:
            return cls(None)
        return cls(
            CommandCheckpoint(
                folder=HOME / "runs",
                queue=order.target.settings.queue,
                handler_file=str(order.handler_file.resolve()),
                input=same,
                kind=order.handler.kind,
            )
        )

    def load(self) -> str | None:
        return None if self.file is None else self.file.load()

    def save(self, run: str) -> None:
        if self.file is not None:
            self.file.save(run)

    def remove(self, run: str) -> None:
        if self.file is not None:
            self.file.remove(run)


async def _run_id(queue: Queue, named: str | None, checkpoint: _Checkpoint, clock: Clock) -> tuple[str, bool]:
    """Return the id of the run, and whether it is an unfinished run of the same order."""
    if named is not None:
        return named, False
    if (unfinished := checkpoint.load()) is not None:
        return unfinished, True
    run = await new_run_id(queue, clock)
    checkpoint.save(run)
    return run, False


@contextmanager
def _submission_shown(order: RunOrder) -> Iterator[Callable[[Submission], None] | None]:
    if order.target.quiet:
        yield None
        return
    with submitting(order.source) as progress:
        yield progress
