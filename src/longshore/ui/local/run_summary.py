"""The messages of `longshore run` before and after the work: the plan, the results, the failures, the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from longshore.errors import LongshoreError, short_name
from longshore.extensions.find import find
from longshore.extensions.traces import KeepsTraces
from longshore.fleet.supervise.supervisor import WorkerExit, how_it_ended
from longshore.queue import Count, Queue
from longshore.runs.export.output_file import STDOUT
from longshore.runs.export.results import DEFAULT_OUT, Delivered
from longshore.runs.local.campaign import Campaign, Conducted
from longshore.runs.records.run_records import run_records
from longshore.runs.submit.submission import Submission
from longshore.runs.watch.blockers import blockers_of
from longshore.runs.watch.failures import FailureGroup, failure_groups, subject
from longshore.runs.watch.rejections import rejections_of
from longshore.scrape.capture.failure_bundles import bundles_of
from longshore.system.printable import printable_lines
from longshore.ui.notices import notices
from longshore.ui.program import program, queue_flag
from longshore.ui.proxy_words import resting_proxies
from longshore.ui.words import counted, duration, one_line, rate, reason_counts, set_aside
from longshore.url import mask_url, mask_urls

COUNTED_BYTES = 64 * 1024 * 1024
"""The most bytes of packed records that are counted at the end of a run: it takes seconds."""


def tell(to: Console, lines: Iterable[str]) -> None:
    """Print lines of markup."""
    for line in lines:
        to.print(printable_lines(line))


def items_lines(written: Mapping[str, int], *, so_far: bool = False) -> list[str]:
    """Return a line for each file of items."""
    files = {place: number for place, number in written.items() if place != STDOUT}
    if not written:
        return ["  items    none: the handlers emitted no records"]
    until_now = " until now" if so_far else ""
    return [f"  items    {escape(place)} ({counted(number, 'item')}{until_now})" for place, number in files.items()]


@dataclass(frozen=True)
class Summary:
    """The messages about one run."""

    campaign: Campaign
    submission: Submission
    again: str | None = None
    """The command that continues the run; None if it is the same command."""

    def opening(self, before: Count, *, unfinished: bool) -> list[str]:
        """Return the lines before the start."""
        run, settings = self.campaign.run, self.campaign.settings
        head = f"[bold]Run {run}[/bold]: {counted(before.total, 'job')}"
        if done := before.total - before.remaining:
            head += f", {done:,} of them done before"
        if self.submission.duplicates and not done and not unfinished:
            head += f" ({self.submission.duplicates:,} given twice)"
        lines = [head + f", {counted(self.campaign.workers, 'worker')}, in {escape(mask_url(settings.queue))}"]
        if unfinished:
            advice = "To start a new one, give --run with a new name." if self.again is None else ""
            lines.append(f"Continuing the unfinished run. {advice}".rstrip())
        return lines

    def unfinished(self, conducted: Conducted) -> list[str]:
        """Return why the run is not finished."""
        count = conducted.count
        lines = [f"[yellow]Stopped[/yellow] with {count.remaining:,} of {counted(count.total, 'job')} still to do."]
        if not conducted.interrupted:
            lines += _why(conducted.endings)
        if count.claimed:
            lines.append(
                f"{counted(count.claimed, 'job')} still held by ended workers come back after "
                f"{self.campaign.lease_seconds:g} s."
            )
        return lines

    def how_to_go_on(self) -> list[str]:
        """Return how to go on with a run that is not finished."""
        status = f"{program()} status {self.campaign.run}{queue_flag(self.campaign.settings)}"
        again = "the same command" if self.again is None else f"[cyan]{escape(self.again)}[/cyan]"
        return [
            f"Nothing is lost: {again} goes on from here.",
            f"How far it is:  [cyan]{escape(status)}[/cyan]",
        ]

    async def closing(
        self,
        queue: Queue,
        before: Count,
        conducted: Conducted,
        delivered: Delivered | None,
        seconds: float,
        width: int | None,
    ) -> list[str]:
        """Return the results, for a screen of this width. The rate is that of the jobs done since `before`."""
        count = conducted.count
        done_now = count.total - (before.total - before.remaining)
        rejects = await rejections_of(queue, self.campaign.run)
        colour, sign = ("red", "✗") if count.failed or rejects else ("green", "✓")
        lines = [
            f"[{colour}]{sign}[/{colour}] [bold]{count.completed:,} completed[/bold], "
            f"{count.failed:,} failed"
            + (f", {count.cancelled:,} cancelled" if count.cancelled else "")
            + (f" in {duration(seconds)} ({rate(done_now / seconds)})" if done_now else "")
        ]
        if rejects is not None:
            lines.append(f"  [red]{escape(set_aside(rejects.count, rejects.where))}[/red]")
        if delivered is not None and delivered.place != "-":
            replaced = ", replaced" if delivered.replaced else ""
            lines.append(f"  results  {escape(delivered.place)} ({counted(delivered.lines, 'line')}{replaced})")
        if delivered is not None and delivered.skipped:
            links = counted(delivered.skipped, "job")
            lines.append(f'  skipped  {links} of these, most often links that robots.txt forbids: "skipped" says why')
        if delivered is not None and delivered.evaded:
            lines.append(f"           {DEFAULT_OUT} holds something else and was kept")
        lines += await self._records(queue)
        if conducted.endings:
            lines.append(f"  logs     {escape(str(self.campaign.logs))}")
        if rest := resting_proxies(self.campaign.settings):
            lines.append(f"  proxies  {rest} ([cyan]{program()} proxies[/cyan] shows where and why)")
        lines += await self._left_out(queue)
        if count.failed:
            groups = await failure_groups(queue, self.campaign.run)
            lines += ["", *failures(groups, width)]
            where = f"--state failed --run {self.campaign.run}{queue_flag(self.campaign.settings)}"
            lines += [
                "",
                f"Look closer:  [cyan]{escape(f'{program()} jobs {where}')}[/cyan]",
                *await self._replays(queue, groups),
                f"Try again:    [cyan]{escape(f'{program()} retry {where}')}[/cyan]",
                f"              then {self._with_run()}",
            ]
        return lines

    async def _left_out(self, queue: Queue) -> list[str]:
        """Return how many jobs the limits of the run, or duplicates whose payloads differ, kept out of it."""
        held = msgspec.structs.replace(await blockers_of(queue, self.campaign.run), paused={})
        return [f"[yellow]![/yellow] {escape(line)}" for line in notices(held).values()]

    async def _records(self, queue: Queue) -> list[str]:
        """Return how many records there are. A very large number is not counted while a person waits."""
        settings, run = self.campaign.settings, self.campaign.run
        if settings.records_database is None and not queue.traits.keeps_traces:
            folder = Path(settings.data_folder) / "records"
            size = sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
            if not size:
                return []
            if size > COUNTED_BYTES:
                command = f"{program()} records {run}{queue_flag(settings)}"
                return [f"  records  {escape(str(folder))} ([cyan]{escape(command)}[/cyan] counts them)"]
        try:
            tally = await run_records(settings, queue, run).tally()
        except (LongshoreError, OSError) as error:
            # The run is finished and its records are kept, so a failure to count them is only reported.
            return [f"  records  could not be counted: {escape(one_line(str(error), 160))}"]
        lines: list[str] = []
        for kind in sorted(tally.kept.keys() | tally.rejected.keys()):
            reasons = tally.rejected.get(kind, {})
            rejected = (
                f", {sum(reasons.values()):,} rejected ({one_line(reason_counts(reasons), 80)})" if reasons else ""
            )
            head = "  records  " if not lines else " " * 11
            kept = tally.kept.get(kind, 0)
            # A kind that a handler names may be any word, so only our own gets a plural.
            lines.append(escape(f"{head}{counted(kept, kind) if kind == 'record' else f'{kept:,} {kind}'}{rejected}"))
        return lines

    async def _replays(self, queue: Queue, groups: list[FailureGroup]) -> list[str]:
        """Return how to replay a kept failure: one of the handler's own errors, if there is one."""
        own_first = [group.exception for group in sorted(groups, key=lambda group: group.error_type != "unknown")]
        settings, run = self.campaign.settings, self.campaign.run
        if (extension := find(queue, KeepsTraces)) is None:
            place, flag = str(Path(settings.data_folder) / "bundles"), ""
            kept = [str(path) for error in own_first for path in bundles_of(Path(place), run, error)]
        else:
            place, flag = "the server", queue_flag(settings)
            listed = await (await extension.traces()).bundles(run)
            kept = [each.name for error in own_first for each in listed if error in ("", short_name(each.error))]
        if not kept:
            return []
        command = f"{program()} replay {shlex.quote(kept[0])} {shlex.quote(str(self.campaign.handler_file))}{flag}"
        lines = [f"Run offline:  [cyan]{escape(command)}[/cyan]"]
        if more := len(kept) - 1:
            lines.append(f"              {more:,} more in {escape(place)}")
        return lines

    def _with_run(self) -> str:
        if self.again is None:
            return f"this command with [cyan]--run {self.campaign.run}[/cyan]"
        return f"[cyan]{escape(f'{self.again} --run {self.campaign.run}')}[/cyan]"


def width_of(to: Console) -> int | None:
    """Return the width of the screen; None without a terminal, where lines may have any length."""
    return to.width if to.is_terminal else None


def failures(groups: list[FailureGroup], width: int | None) -> list[str]:
    """Return the failures by kind, with examples of each. A line wider than the screen becomes two."""
    lines = ["[bold]What failed[/bold]"]
    for group in groups:
        lines.append(f"  [red]{group.count:,} × {escape(group.label)}[/red]")
        for job in group.examples:
            message = one_line(job.failure.message, 160) if job.failure else ""
            about = mask_urls(subject(job))
            head = f"      job {job.id}  "
            text = message if about in message else f"{about}: {message}"
            if width is not None and len(head + text) > width and text != message:
                text = f"{about}\n{' ' * len(head)}{message}"
            lines.append(escape(head + text))
        if group.count > len(group.examples):
            lines.append(f"      … and {group.count - len(group.examples):,} more")
    return lines


def _why(endings: list[WorkerExit]) -> list[str]:
    lines = []
    for ending in endings:
        if ending.done:
            how = "stopped before the run was done (a stop condition of the handler file?)"
        else:
            how = how_it_ended(ending.exit_code)
        lines.append(f"  {ending.command.name} {how}; its log: {escape(str(ending.command.log))}")
        if last := _last_line(ending):
            lines.append(f"      {escape(last)}")
    return lines


def _last_line(ending: WorkerExit) -> str:
    try:
        with ending.command.log.open("rb") as file:
            file.seek(max(file.seek(0, 2) - 2000, 0))
            tail = file.read().decode(errors="replace").strip()
    except OSError:
        return ""
    return one_line(tail.rpartition("\n")[2], 300)
