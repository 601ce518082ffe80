"""Submit the jobs of a source to a new run or to a named one: `longshore submit` and `longshore.submit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from longshore.clock import SystemClock
from longshore.errors import UsageError
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.runs.open_queue import open_or_create
from longshore.runs.published.pins import pin
from longshore.runs.sources import Scan, Source
from longshore.runs.submit.repeated_scan import run_of_scan
from longshore.runs.submit.shared_urls import NOT_DECLARED, Identities, by_option
from longshore.runs.submit.submission import (
    Submission,
    SubmissionPlan,
    check_file,
    check_run_id,
    new_run_id,
    submit_file,
)
from longshore.settings import Settings


@dataclass(frozen=True)
class RunAddition:
    """Which run gets the jobs of a source, and the values of those that have none of their own."""

    kind: str
    run: str | None = None
    """None makes a new run; for a scan that has made a run before, it is that run."""
    priority: int = 0
    partition: str = ""
    identities: Identities = field(default_factory=lambda: NOT_DECLARED)
    limits: GrowthLimits | None = None
    """How far the run may grow by follow-on jobs; None leaves the limits unchanged."""
    pin: str | None = None
    """The published version that works on the run, by the first digits of its fingerprint; None for the current one."""

    def check(self, source: Source) -> None:
        """Raise `UsageError` or `InputFileError`, before anything is changed, for a name or a job that is wrong."""
        if not self.kind.strip():
            raise UsageError("The kind is empty. Name the handler the jobs are for.")
        if self.run is not None:
            check_run_id(self.run)
        check_file(source, self.kind, self.identities, by_option)


async def submit_run(
    settings: Settings, source: Source, to: RunAddition, progress: Callable[[Submission], None] | None = None
) -> Submission:
    """Submit every job of a checked source, and return the id of the run and how many jobs are new."""
    async with open_or_create(settings) as queue:
        run = to.run
        if run is None and isinstance(source, Scan):
            run, _ = await run_of_scan(queue, to.kind, source, SystemClock())
        elif run is None:
            run = await new_run_id(queue, SystemClock())
        if to.pin is not None:
            await pin(queue, run, to.pin)
        if to.limits is not None:
            # Before the first job: a worker may claim it at once.
            await set_limits(queue, run, to.limits)
        plan = SubmissionPlan(
            run=run, kind=to.kind, priority=to.priority, partition=to.partition, identities=to.identities
        )
        return await submit_file(queue, source, plan, progress=progress)
