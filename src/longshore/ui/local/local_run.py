"""A run whose jobs are in the queue, worked on here to its end: workers, progress, results, summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from longshore.clock import Clock
from longshore.extensions.submissions import being_submitted
from longshore.handlers.handler import Handler
from longshore.queue import Count, Queue, totals
from longshore.runs.export.items import ItemsFile
from longshore.runs.export.results import Delivered, deliver
from longshore.runs.local.campaign import Campaign, Conducted, conduct
from longshore.runs.local.defaults import HOME
from longshore.runs.records.run_records import run_records
from longshore.runs.submit.submission import Submission
from longshore.runs.watch.rejections import rejections_of
from longshore.settings import Settings
from longshore.ui.exit_codes import INTERRUPTED
from longshore.ui.local.campaign_view import CampaignView
from longshore.ui.local.run_summary import Summary, items_lines, tell, width_of
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
    items: ItemsFile | None = None
    """The file for the items that the handlers emit; None leaves them to `longshore export`."""
    deliver: bool = True
    """Whether the results of a finished run are written to a file; if not, they are only in the queue."""
    own_handlers: Mapping[str, Handler] | None = None
    """Handlers that only this program has; see `Campaign`."""


@dataclass(frozen=True)
class Worked:
    """How a local run ended."""

    count: Count
    interrupted: bool
    delivered: Delivered | None
    """The written results; None if jobs are left, or if none were to be written."""
    incomplete: bool = False
    """Whether files of the run were rejected, or removed by hand."""

    @property
    def over(self) -> bool:
        """Whether no job is left."""
        return not self.count.remaining

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if not self.over:
            return INTERRUPTED if self.interrupted else 1
        return 1 if self.count.failed or self.incomplete else 0


async def work_through(queue: Queue, local: LocalRun, clock: Clock, to: Console | None = None) -> Worked:
    """Work on the run until nothing is left or it is stopped; write the results of a finished run.

    Progress and summary go to `to`, by default standard error.
    """
    from rich.markup import escape

    from longshore.worker.lifecycle.egress import Egress, fault_of

    to, run = console() if to is None else to, local.submission.run_id
    submitting = await being_submitted(queue, run)
    before = totals(await queue.stats(run))
    campaign = Campaign(
        run, local.handler_file, local.settings, HOME / "logs" / run, local.environment, local.own_handlers
    )
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
    items = None if local.items is None else await local.items.write(run, run_records(local.settings, queue, run))
    if conducted.count.remaining:
        so_far = [] if items is None else items_lines(items, so_far=True)
        tell(to, [*summary.unfinished(conducted), *so_far, *summary.how_to_go_on()])
        return Worked(conducted.count, conducted.interrupted, None)
    delivered = await deliver(queue, run, local.out) if local.deliver else None
    seconds = clock.monotonic() - local.began
    tell(to, await summary.closing(queue, before, conducted, delivered, seconds, width_of(to)))
    if items is not None:
        tell(to, items_lines(items))
    incomplete = await rejections_of(queue, run) is not None
    return Worked(conducted.count, conducted.interrupted, delivered, incomplete)
