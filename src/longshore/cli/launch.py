"""The launcher: everything a person should see before a fleet starts, and the question whether it should."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape

from longshore.cli.output import counted, duration, note, one_line, write
from longshore.errors import LongshoreError, NotFoundError, UsageError
from longshore.fleet.autoscale import Load, Policy
from longshore.fleet.checks import Finding, Plan, Verdict, examine
from longshore.fleet.checks.loading import load_apart
from longshore.fleet.lineup import Lineup, line_up
from longshore.fleet.table import Table, listed_partitions, read_table
from longshore.job import State
from longshore.queue import Count, Queue, Selection, totals
from longshore.scrape.proxy_file import read_proxies
from longshore.settings import Settings, resolve
from longshore.url import mask_url

_SAMPLE = 200
_PATIENCE = 20.0
"""Seconds that the queue is given to say what it holds."""


@dataclass(frozen=True)
class Order:
    """What the command line asked for."""

    file: Path
    said: Mapping[str, Any]
    """Settings that it named."""
    run: str | None
    partitions: str | None
    table: Path | None
    trial: bool
    until_done: bool
    needs_dotenv: bool
    """Whether this folder is meant to have a `.env`."""
    policy: Policy | None = None
    """How it sizes itself; None for a fleet of fixed size."""


@dataclass(frozen=True)
class Launch:
    """A fleet that may start."""

    order: Order
    settings: Settings
    lineup: Lineup
    counts: tuple[Count, ...]
    """The work before it starts."""

    @property
    def title(self) -> str:
        """What is worked on."""
        return f"Run {self.order.run}" if self.order.run else "Every run"


async def prepared(order: Order) -> Launch | None:
    """Check everything, and return what may start; None where a check failed, after telling all that did.

    `UsageError` where the order makes no sense.
    """
    only = None if order.partitions is None else listed_partitions(order.partitions)
    table = _table_or_none(order.table)
    counting = asyncio.ensure_future(_counts(order))
    # A table must hold what there is work for; without one nobody needs to wait for the answer.
    found = await counting if table is not None else None
    plan = Plan(
        said=order.said,
        handler_file=order.file,
        table=order.table,
        at_work=tuple(sorted({count.partition for count in found or ()} - {""})),
        needs_dotenv=order.needs_dotenv,
    )
    loading = asyncio.ensure_future(load_apart(plan))
    findings = await examine(plan, loading=loading)
    counts = await counting
    if not _passed(findings):
        return None
    loaded = await loading
    settings = resolve(order.said)
    if order.until_done and order.run is not None and not counts:
        raise NotFoundError(
            f"There is no run '{order.run}' in {mask_url(settings.queue)}. `longshore submit` starts one."
        )
    named = () if loaded is None else loaded.partitions
    known = {count.partition for count in counts or ()} - {""} | set(table.partitions if table is not None else named)
    size = settings.workers
    if table is not None and "workers" not in settings.sources:
        size = max(table.rows) + 1
    assigning = {} if table is None else {"assigns": table.assign}
    lineup = line_up(size, known, only=only, trial=order.trial, **assigning)
    return Launch(order, settings, lineup, tuple(lineup.counts(counts or ())))


def _table_or_none(path: Path | None) -> Table | None:
    """The table; None where there is none, or it cannot be read, which its check will say."""
    try:
        return None if path is None else read_table(path)
    except LongshoreError:
        return None


async def _counts(order: Order) -> list[Count] | None:
    """The work there is; None where the queue cannot say, which its check will tell."""
    from longshore.cli.opened import opened_existing

    try:
        async with asyncio.timeout(_PATIENCE), opened_existing(resolve(order.said)) as queue:
            return await queue.stats(order.run)
    except NotFoundError:
        return []
    except (LongshoreError, TimeoutError):
        return None


def _passed(findings: Sequence[Finding]) -> bool:
    """Whether a fleet may start; shows what a person should know."""
    from longshore.cli.doctor import show_findings

    if any(finding.verdict is Verdict.FAIL for finding in findings):
        show_findings(findings)
        note("longshore: Nothing was started. `longshore doctor` runs the same checks.")
        return False
    to = _console()
    fine = sum(finding.verdict is Verdict.OK for finding in findings)
    warnings = [finding for finding in findings if finding.verdict is Verdict.WARN]
    hint = "; `longshore doctor` says what to do about these:" if warnings else "."
    to.print(f"[green]✓[/green] {counted(fine, 'check')} fine, nothing in the way{hint}")
    for finding in warnings:
        to.print(f"[yellow]![/yellow] {finding.name:<9} {escape(_cut(finding.what, to, 12))}")
    return True


def _console() -> Console:
    return Console(highlight=False, emoji=False, soft_wrap=True)


def _cut(text: str, to: Console, used: int) -> str:
    """The text on one line, beside what else is on it; whole where there is no screen."""
    return one_line(text, to.width - used) if to.is_terminal else text


async def show(launch: Launch, queue: Queue) -> None:
    """The assignment, what is pending, the proxies, the time it will take."""
    from longshore.cli.assign import show as show_assignment

    lineup, settings = launch.lineup, launch.settings
    pending = Counter[str]()
    for count in launch.counts:
        pending[count.partition] += count.pending
    whole = f" of a fleet of {lineup.size}" if lineup.trial else ""
    if lineup.partitioned:
        show_assignment(lineup.shares, pending)
        if pending[""]:
            write(f"{counted(pending[''], 'pending job')} without a partition: for whoever is free.")
        how = (
            "each keeps to its own"
            if settings.strict_partitions or lineup.trial
            else "whoever has nothing left helps the others"
        )
    else:
        how = "no partitions, so each takes whatever is next"
    policy = launch.order.policy
    sized = "" if policy is None else f" at first, then one for each {policy.per:,} pending within {policy.bounds}"
    facts = [("workers", f"{len(lineup.numbers)}{whole}{sized}; {how}")]
    total = totals(launch.counts)
    done = total.total - total.remaining
    share = f" ({100 * done // total.total} %)" if total.total else ""
    failed = f", {total.failed:,} failed" if total.failed else ""
    what = f"{done:,} of {counted(total.total, 'job')} done{share}, {total.pending:,} pending{failed}"
    facts.append((f"run {launch.order.run}" if launch.order.run else "every run", what))
    if settings.proxy_file is not None:
        proxies = len(read_proxies(Path(settings.proxy_file)))
        each = f"{proxies / len(lineup.numbers):,.1f}".removesuffix(".0")
        facts.append(("proxies", f"{proxies:,} in {settings.proxy_file}, {each} for each worker"))
    facts.append(("time", await _estimate(launch, queue, total)))
    to, width = _console(), max(len(name) for name, _ in facts)
    for name, fact in facts:
        to.print(f"[bold]{escape(name.ljust(width))}[/bold]  {escape(fact)}")


async def _estimate(launch: Launch, queue: Queue, total: Count) -> str:
    """How long it will take, and what that is based on."""
    if not total.remaining:
        return "nothing is left to do" if total.total else "not known: there are no jobs yet"
    chosen = Selection(run=launch.order.run, states=frozenset({State.COMPLETED}))
    seconds = [job.seconds for job in await queue.jobs(chosen, limit=_SAMPLE) if job.seconds is not None]
    if not seconds:
        return f"not known yet: nothing of {'this run' if launch.order.run else 'this queue'} has been done"
    settings, policy = launch.settings, launch.order.policy
    workers = len(launch.lineup.numbers) if policy is None else policy.target(Load(total.pending, total.claimed))
    mean = fmean(seconds)
    pause = (settings.delay.low + settings.delay.high) / 2
    # Between two pauses one job begins; without them as many are under way as may be.
    a_job = max(mean / settings.concurrency, pause)
    paused = f", pauses of {settings.delay} s" if pause else ""
    return (
        f"{duration(total.remaining * a_job / workers)} or more: {counted(len(seconds), 'finished job')} took "
        f"{duration(mean)} each; {workers} × {settings.concurrency} at once{paused}"
    )


def agreed(launch: Launch, *, yes: bool) -> bool:
    """Whether the person wants it. Without a terminal nobody can be asked: `UsageError`, unless `--yes` was given."""
    if yes:
        return True
    workers = counted(len(launch.lineup.numbers), "worker")
    if not sys.stdin.isatty():
        raise UsageError(f"This would start {workers}, and nobody can be asked here. Add --yes.")
    sys.stdout.write(f"Start {workers}? [y/N] ")
    sys.stdout.flush()
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        note("")
        raise
    if answer.strip().lower() in {"y", "yes"}:
        return True
    write("Nothing was started.")
    return False
