"""A run whose jobs are in the queue, worked on here to its end: workers, progress, results, summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longshore.clock import Clock
from longshore.extensions.submissions import being_submitted
from longshore.queue import Count, Queue, totals
from longshore.runs.export.results import Delivered, deliver
from longshore.runs.local.campaign import Campaign, Conducted, conduct
from longshore.runs.local.defaults import HOME
from longshore.runs.submit.submission import Submission
from longshore.runs.watch.rejections import rejections_of
from longshore.settings import Settings
from longshore.ui.exit_codes import INTERRUPTED
from longshore.ui.local.campaign_view import CampaignView
from longshore.ui.local.run_summary import Summary, tell, width_of
from longshore.ui.progress import console, run_progress


@dataclass(frozen=True)
class LocalRun:
    """A submitted run, the settings and the handler file of its workers, and the file for its results."""

    settings: Settings
    handler_file: Path
    out: str | None
    submission: Submission
    began: float
    """When the command began, by the clock's monotonic time."""
    resumed: bool
    again: str | None = None
    """The command that continues the run; None if it is the same command."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the workers, in addition to those of this process."""


@dataclass(frozen=True)
class Worked:
    """How a local run ended."""

    count: Count
    interrupted: bool
    delivered: Delivered | None
    """The written results; None if jobs are left."""
    incomplete: bool = False
    """Whether files of the run were rejected, or removed by hand."""

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.delivered is None:
            return INTERRUPTED if self.interrupted else 1
        return 1 if self.count.failed or self.incomplete else 0


async def work_through(queue: Queue, local: LocalRun, clock: Clock) -> Worked:
    """Work on the run until nothing is left or it is stopped; write the results of a finished run."""
    from rich.markup import escape

    from longshore.worker.lifecycle.egress import Egress, fault_of

    to, run = console(), local.submission.run_id
    submitting = await being_submitted(queue, run)
    before = totals(await queue.stats(run))
    campaign = Campaign(run, local.handler_file, local.settings, HOME / "logs" / run, local.environment)
    summary = Summary(campaign, local.submission, local.again)
    tell(to, summary.opening(before, unfinished=local.resumed))
    if before.remaining or submitting:
        if fault := await fault_of(Egress.of(local.settings)):
            shut = f"[yellow]PAUSED: the VPN check fails: {escape(fault)}. The workers begin once it holds.[/yellow]"
            tell(to, [shut])
        with run_progress(to) as shown:
            conducted = await conduct(queue, campaign, CampaignView(queue, campaign, shown))
    else:
        conducted = Conducted(before, [], interrupted=False)
    if conducted.count.remaining:
        tell(to, [*summary.unfinished(conducted), *summary.how_to_go_on()])
        return Worked(conducted.count, conducted.interrupted, None)
    delivered = await deliver(queue, run, local.out)
    seconds = clock.monotonic() - local.began
    tell(to, await summary.closing(queue, before, conducted, delivered, seconds, width_of(to)))
    incomplete = await rejections_of(queue, run) is not None
    return Worked(conducted.count, conducted.interrupted, delivered, incomplete)
