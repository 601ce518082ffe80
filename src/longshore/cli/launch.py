"""The launcher: everything a person should see before a fleet starts, and the question whether it should."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from longshore.errors import LongshoreError, NotFoundError, QueueUnavailableError, UsageError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.fleet.checks import CheckPlan, CheckVerdict, Finding, run_checks
from longshore.fleet.checks.load_handlers import load_apart
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import AssignmentTable, listed_partitions, read_table
from longshore.fleet.partitions.start_plan import StartPlan, start_plan
from longshore.fleet.sizing.autoscale import QueueLoad, ScalingPolicy
from longshore.job import State
from longshore.queue import Count, Selection, totals
from longshore.runs.watch.current_rate import least_seconds
from longshore.scrape.proxies.proxy_file import read_proxies
from longshore.settings import Settings, resolve
from longshore.ui.output import counted, duration, note, write
from longshore.url import mask_url

_SAMPLE = 200
_PATIENCE = 20.0
"""Seconds that the queue is given to say what it holds."""


@dataclass(frozen=True)
class LaunchOptions:
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
    policy: ScalingPolicy | None = None
    """How it sizes itself; None for a fleet of fixed size."""


@dataclass(frozen=True)
class Launch:
    """A fleet that may start."""

    order: LaunchOptions
    settings: Settings
    lineup: StartPlan
    counts: tuple[Count, ...]
    """The work before it starts."""
    seconds: tuple[float, ...] = ()
    """How long some of the finished jobs took."""
    others: int = 0
    """How many workers of other fleets are on the same run."""

    @property
    def title(self) -> str:
        """What is worked on."""
        return f"Run {self.order.run}" if self.order.run else "Every run"


@dataclass(frozen=True)
class _Look:
    """What the queue holds."""

    counts: tuple[Count, ...] = ()
    seconds: tuple[float, ...] = ()
    present: tuple[PresentWorker, ...] = ()


async def prepared(order: LaunchOptions) -> Launch | None:
    """Check everything, and return what may start; None where a check failed, after telling all that did.

    `UsageError` where the order makes no sense.
    """
    only = None if order.partitions is None else listed_partitions(order.partitions)
    table = _table_or_none(order.table)
    looking = asyncio.ensure_future(_look(order))
    if table is not None:
        # It must hold what there is work for; without a table nobody needs to wait for the answer.
        await asyncio.wait({looking})
    plan = CheckPlan(
        said=order.said,
        handler_file=order.file,
        table=order.table,
        at_work=tuple(sorted(_partitions_of(looking, only))),
        asked_for=only or (),
        needs_dotenv=order.needs_dotenv,
    )
    loading = asyncio.ensure_future(load_apart(plan))
    findings = await run_checks(plan, loading=loading)
    await asyncio.wait({looking})
    if not _passed(findings):
        looking.exception()  # one of the checks has told it
        return None
    loaded, look = await loading, await looking
    settings = resolve(order.said)
    if order.until_done and order.run is not None and not look.counts:
        raise NotFoundError(
            f"There is no run '{order.run}' in {mask_url(settings.queue)}. `longshore submit` starts one."
        )
    named = () if loaded is None else loaded.partitions
    known = {count.partition for count in look.counts} - {""} | set(table.partitions if table is not None else named)
    size = settings.workers
    if table is not None and "workers" not in settings.sources:
        size = max(table.rows) + 1
    assigns = assign if table is None else table.assign
    lined_up = partial(start_plan, size, known, only=only, trial=order.trial, assigns=assigns)
    lineup = lined_up()
    launch = Launch(order, settings, lineup, tuple(lineup.counts(look.counts)), look.seconds)
    return _among_others(launch, look.present, lined_up)


def _among_others(launch: Launch, present: Sequence[PresentWorker], lined_up: Callable[..., StartPlan]) -> Launch:
    """The fleet with what is left to its workers by those of other fleets that are on the run already."""
    from longshore.fleet.launch.worker_command import fleet_name

    own, others, taken = fleet_name(launch), 0, set[int]()
    for each in present:
        info = each.info
        # Workers of this fleet that are still on the roll had another life: they come back under their numbers.
        if (info.fleet is not None and info.fleet.name == own) or info.working_on != launch.order.run:
            continue
        others += 1
        if info.membership is not None and info.membership.number is not None:
            taken.add(info.membership.number)
    return replace(launch, others=others, lineup=lined_up(taken=taken))


def _table_or_none(path: Path | None) -> AssignmentTable | None:
    """The table; None where there is none, or it cannot be read, which its check will say."""
    try:
        return None if path is None else read_table(path)
    except LongshoreError:
        return None


async def _look(order: LaunchOptions) -> _Look:
    """What the queue holds; nothing where there is none yet, and none is made. Raises what the queue raises."""
    from longshore.runs.open_queue import opened_existing

    done = Selection(run=order.run, states=frozenset({State.COMPLETED}))
    try:
        async with asyncio.timeout(_PATIENCE), opened_existing(resolve(order.said)) as queue:
            registry = find(queue, WorkerRegistry)
            return _Look(
                tuple(await queue.stats(order.run)),
                tuple(job.seconds for job in await queue.jobs(done, limit=_SAMPLE) if job.seconds is not None),
                () if registry is None else tuple(await registry.present_workers()),
            )
    except NotFoundError:
        return _Look()
    except TimeoutError as error:
        raise QueueUnavailableError(
            f"The queue did not say within {_PATIENCE:g} s what it holds. See whether it is overloaded, and repeat."
        ) from error


def _partitions_of(looking: asyncio.Future[_Look], only: Sequence[str] | None) -> set[str]:
    """The partitions there are jobs of, among those to be worked on; none where that is not known."""
    if not looking.done() or looking.exception() is not None:
        return set()
    found = {count.partition for count in looking.result().counts} - {""}
    return found if only is None else found & set(only)


def _passed(findings: Sequence[Finding]) -> bool:
    """Whether a fleet may start; shows what a person should know."""
    from longshore.cli.verbs.setup.doctor import show_findings

    if any(finding.verdict is CheckVerdict.FAIL for finding in findings):
        show_findings(findings)
        note("longshore: Nothing was started. `longshore doctor` runs the same checks.")
        return False
    fine = sum(finding.verdict is CheckVerdict.OK for finding in findings)
    warnings = [finding for finding in findings if finding.verdict is CheckVerdict.WARN]
    hint = "; `longshore doctor` says what to do about these:" if warnings else "."
    _console().print(Text.assemble(("✓", "green"), f" {counted(fine, 'check')} fine, nothing in the way{hint}"))
    _write_rows([(Text.assemble(("!", "yellow"), f" {finding.name:<9}"), finding.what) for finding in warnings], gap=1)
    return True


def _console() -> Console:
    # What goes into a pipe is not wrapped.
    return Console(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def _write_rows(rows: Sequence[tuple[Text, str]], *, gap: int) -> None:
    """A line for each; on a terminal a long one goes on below where its text began."""
    to, width = _console(), max((len(name) for name, _ in rows), default=0)
    if not to.is_terminal:
        for name, text in rows:
            write(f"{name.plain:<{width + gap}}{text}")
        return
    grid = Grid.grid(padding=(0, gap, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, width=width)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(name, Text(text))
    to.print(grid, soft_wrap=False)


def show(launch: Launch) -> None:
    """The assignment, what is pending, the proxies, the time it will take."""
    from longshore.cli.verbs.inspect.assign import show as show_assignment

    lineup, settings = launch.lineup, launch.settings
    pending = Counter[str]()
    for count in launch.counts:
        pending[count.partition] += count.pending
    if lineup.partitioned:
        show_assignment(lineup.shares, pending)
        if pending[""]:
            write(f"{counted(pending[''], 'pending job')} without a partition: for whoever is free.")
    total = totals(launch.counts)
    facts = [("workers", _workers(launch))]
    if launch.others:
        facts.append(("others", _others(launch)))
    facts.append((f"run {launch.order.run}" if launch.order.run else "every run", _progress(launch, total)))
    if settings.max_work:
        facts.append(("limit", _limit(launch, total)))
    if settings.proxy_file is not None:
        proxies = len(read_proxies(Path(settings.proxy_file)))
        facts.append(("proxies", f"{proxies:,} in {settings.proxy_file}, {_each(proxies, len(lineup.numbers))}"))
    facts.append(("time", _estimate(launch, total)))
    _write_rows([(Text(name, style="bold"), fact) for name, fact in facts], gap=2)


def _workers(launch: Launch) -> str:
    """How many there will be, and how they share the work."""
    lineup, policy = launch.lineup, launch.order.policy
    number = len(lineup.numbers)
    alone = number == 1 and policy is None
    if not lineup.partitioned:
        how = f"no partitions, so {'it' if alone else 'each'} takes whatever is next"
    elif launch.settings.strict_partitions or lineup.trial:
        how = "it keeps to its own" if alone else "each keeps to its own"
    elif alone and not launch.others:
        how = "it has every partition"
    else:
        how = "whoever has nothing left helps the others"
    whole = f" of a fleet of {lineup.size}" if lineup.trial else ""
    sized = "" if policy is None else f" at first, then one for each {policy.per:,} pending within {policy.bounds}"
    return f"{number}{whole}{sized}; {how}"


def _others(launch: Launch) -> str:
    """Who is on the run already, and what that means for the partitions."""
    number, run = launch.others, "this run" if launch.order.run else "this queue"
    are = "worker is" if number == 1 else "workers are"
    share = "; they share the partitions" if launch.lineup.partitioned and not launch.lineup.trial else ""
    return f"{number:,} other {are} on {run}{share}"


def _progress(launch: Launch, total: Count) -> str:
    """How far the work is; only that of these workers, where they are limited to some."""
    done = total.total - total.remaining
    share = f" ({100 * done // total.total} %)" if total.total else ""
    failed = f", {total.failed:,} failed" if total.failed else ""
    whose = "these workers" if launch.lineup.trial else "--partitions"
    only = "" if launch.lineup.reach is None else f"; counted are only the partitions of {whose}"
    return f"{done:,} of {counted(total.total, 'job')} done{share}, {total.pending:,} pending{failed}{only}"


def _limit(launch: Launch, total: Count) -> str:
    """After how many jobs each worker stops, who says so, and what that leaves undone."""
    settings = launch.settings
    source = settings.source("max_work")
    says = f"profile {source.name}" if source.level == "profile" else str(source)
    stops = f"each worker stops after {counted(settings.max_work, 'job')} ({says})"
    within = _within_limits(launch, total)
    return stops if within == total.remaining else f"{stops}: at most {within:,} of {total.remaining:,} will be done"


def _within_limits(launch: Launch, total: Count) -> int:
    """How many of the jobs that are left the workers may do before their limits end them."""
    # A fleet that sizes itself starts another in the place of one that ended.
    if not launch.settings.max_work or launch.order.policy is not None:
        return total.remaining
    return min(total.remaining, launch.settings.max_work * len(launch.lineup.numbers))


def _each(proxies: int, workers: int) -> str:
    """How many proxies each worker has."""
    if proxies < workers:
        return f"fewer than the {workers} workers: some share one"
    fewest, more = divmod(proxies, workers)
    return f"{fewest:,} or {fewest + 1:,} each" if more else f"{fewest:,} each"


def _estimate(launch: Launch, total: Count) -> str:
    """How long it will take, and what that is based on."""
    if not total.remaining:
        return "nothing is left to do" if total.total else "not known: there are no jobs yet"
    if not launch.seconds:
        return f"not known yet: nothing of {'this run' if launch.order.run else 'this queue'} has been done"
    settings, policy = launch.settings, launch.order.policy
    jobs = _within_limits(launch, total)
    workers = len(launch.lineup.numbers) if policy is None else policy.target(QueueLoad(total.pending, total.claimed))
    # Others take part in all there is to do, not in what these may do, nor in a trial.
    helped = launch.others if jobs == total.remaining and not launch.lineup.trial else 0
    mean = fmean(launch.seconds)
    pause = (settings.delay.low + settings.delay.high) / 2
    least = least_seconds(jobs, mean, workers=workers + helped, concurrency=settings.concurrency, pause=pause)
    paused = f", pauses of {settings.delay} s" if pause else ""
    counting = f", with the {counted(helped, 'other')}" if helped else ""
    return (
        f"{duration(least)} or more: {counted(len(launch.seconds), 'finished job')} took {duration(mean)} each; "
        f"{workers + helped} × {settings.concurrency} at once{paused}{counting}"
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
