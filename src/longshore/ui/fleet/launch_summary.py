"""The messages before a fleet starts: the checks, the plan, the time it may take, and the question."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from longshore.errors import UsageError
from longshore.fleet.checks import CheckVerdict, Finding
from longshore.fleet.launch.launch import CheckedLaunch, Launch
from longshore.runs.watch.current_rate import least_seconds
from longshore.scrape.proxies.proxy_file import read_proxies
from longshore.system.printable import printable_lines
from longshore.ui.assignment import show_assignment
from longshore.ui.findings import show_findings
from longshore.ui.output import confirmed, note, write
from longshore.ui.words import counted, duration


def show_checks(checked: CheckedLaunch) -> None:
    """Show the findings of the checks: all if one failed, else the warnings."""
    findings = checked.findings
    if not checked.passed:
        show_findings(findings)
        note("longshore: Nothing was started. `longshore doctor` runs the same checks.")
        return
    fine = sum(finding.verdict is CheckVerdict.OK for finding in findings)
    warnings: list[Finding] = [finding for finding in findings if finding.verdict is CheckVerdict.WARN]
    hint = "; `longshore doctor` says what to do about these:" if warnings else "."
    _console().print(Text.assemble(("✓", "green"), f" {counted(fine, 'check')} fine, nothing in the way{hint}"))
    _write_rows([(Text.assemble(("!", "yellow"), f" {finding.name:<9}"), finding.what) for finding in warnings], gap=1)


def _console() -> Console:
    # Lines in a pipe are not wrapped.
    return Console(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def _write_rows(rows: Sequence[tuple[Text, str]], *, gap: int) -> None:
    """Write a line for each; on a terminal a long text is wrapped below its own beginning."""
    to, width = _console(), max((len(name) for name, _ in rows), default=0)
    if not to.is_terminal:
        for name, text in rows:
            write(f"{name.plain:<{width + gap}}{text}")
        return
    grid = Grid.grid(padding=(0, gap, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, width=width)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(name, Text(printable_lines(text)))
    to.print(grid, soft_wrap=False)


def show_launch(launch: Launch) -> None:
    """Show the assignment, the progress, the proxies, and how long it may take."""
    plan, settings = launch.plan, launch.settings
    pending = Counter[str]()
    for count in launch.counts:
        pending[count.partition] += count.pending
    if plan.partitioned:
        show_assignment(plan.shares, pending)
        if pending[""]:
            write(f"{counted(pending[''], 'pending job')} without a partition: for any worker that is free.")
    facts = [("workers", _workers(launch))]
    if launch.others:
        facts.append(("others", _others(launch)))
    facts.append((f"run {launch.options.run}" if launch.options.run else "every run", _progress(launch)))
    if settings.max_work:
        facts.append(("limit", _limit(launch)))
    if settings.proxy_file is not None:
        proxies = len(read_proxies(Path(settings.proxy_file)))
        each = _each(proxies, len(plan.numbers), rotation=settings.proxy_rotation)
        facts.append(("proxies", f"{proxies:,} in {settings.proxy_file}, {each}"))
    facts.append(("time", _time(launch)))
    _write_rows([(Text(name, style="bold"), fact) for name, fact in facts], gap=2)


def _workers(launch: Launch) -> str:
    """Return how many workers there will be, and how they share the work."""
    plan, policy = launch.plan, launch.options.policy
    number = len(plan.numbers)
    alone = number == 1 and policy is None
    if not plan.partitioned:
        how = f"no partitions, so {'it' if alone else 'each'} takes whatever is next"
    elif launch.settings.strict_partitions or plan.trial:
        how = "it keeps to its own" if alone else "each keeps to its own"
    elif alone and not launch.others:
        how = "it has every partition"
    else:
        how = "a worker that has nothing left helps the others"
    whole = f" of a fleet of {plan.size}" if plan.trial else ""
    sized = "" if policy is None else f" at first, then one for each {policy.per:,} pending within {policy.bounds}"
    return f"{number}{whole}{sized}; {how}"


def _others(launch: Launch) -> str:
    """Return how many other workers are on the run already, and what that means for the partitions."""
    number, run = launch.others, "this run" if launch.options.run else "this queue"
    are = "worker is" if number == 1 else "workers are"
    share = "; they share the partitions" if launch.plan.partitioned and not launch.plan.trial else ""
    return f"{number:,} other {are} on {run}{share}"


def _progress(launch: Launch) -> str:
    """Return the progress of the run, or of the partitions that these workers are limited to."""
    total = launch.total
    done = total.total - total.remaining
    share = f" ({100 * done // total.total} %)" if total.total else ""
    failed = f", {total.failed:,} failed" if total.failed else ""
    whose = "these workers" if launch.plan.trial else "--partitions"
    only = "" if launch.plan.reach is None else f"; counted are only the partitions of {whose}"
    return f"{done:,} of {counted(total.total, 'job')} done{share}, {total.pending:,} pending{failed}{only}"


def _limit(launch: Launch) -> str:
    """Return after how many jobs each worker stops, which setting says so, and what that leaves undone."""
    settings, remaining, within = launch.settings, launch.total.remaining, launch.jobs_within_limits
    source = settings.source("max_work")
    says = f"profile {source.name}" if source.level == "profile" else str(source)
    stops = f"each worker stops after {counted(settings.max_work, 'job')} ({says})"
    return stops if within == remaining else f"{stops}: at most {within:,} of {remaining:,} will be done"


def _each(proxies: int, workers: int, *, rotation: bool) -> str:
    """Return how many proxies each worker has. With rotation, each has them all."""
    if rotation:
        return "used by its one worker" if workers == 1 else f"all used by each of the {workers} workers"
    if proxies < workers:
        return f"fewer than the {workers} workers: some share one"
    fewest, more = divmod(proxies, workers)
    return f"{fewest:,} or {fewest + 1:,} each" if more else f"{fewest:,} each"


def _time(launch: Launch) -> str:
    """Return the least time it will take, and what that is based on."""
    total = launch.total
    if not total.remaining:
        return "nothing is left to do" if total.total else "not known: there are no jobs yet"
    if not launch.seconds:
        return f"not known yet: nothing of {'this run' if launch.options.run else 'this queue'} has been done"
    settings, helpers = launch.settings, launch.helpers
    workers, mean = launch.workers + helpers, fmean(launch.seconds)
    pause = settings.delay.mean
    least = least_seconds(
        launch.jobs_within_limits, mean, workers=workers, concurrency=settings.concurrency, pause=pause
    )
    paused = f", pauses of {settings.delay} s" if pause else ""
    counting = f", with the {counted(helpers, 'other')}" if helpers else ""
    return (
        f"{duration(least)} or more: {counted(len(launch.seconds), 'finished job')} took {duration(mean)} each; "
        f"{workers} × {settings.concurrency} at once{paused}{counting}"
    )


def confirm_start(launch: Launch, *, yes: bool) -> bool:
    """Return whether the person agrees to the start. `UsageError` without a terminal to ask at, unless `yes`."""
    if yes:
        return True
    workers = counted(len(launch.plan.numbers), "worker")
    if not sys.stdin.isatty():
        raise UsageError(f"This would start {workers}, and there is no terminal to ask at. Add --yes.")
    if confirmed(f"Start {workers}?", sys.stdout):
        return True
    write("Nothing was started.")
    return False
