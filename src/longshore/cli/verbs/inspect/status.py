"""`longshore status`: show the progress of the runs."""

from __future__ import annotations

import asyncio
from math import floor
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.ui.counts import COLUMNS, NO_NAME, NO_RUN

if TYPE_CHECKING:
    from longshore.extensions.presence import PresentWorker
    from longshore.extensions.rejected import RejectedFiles
    from longshore.queue import Count
    from longshore.runs.watch.active_workers import ActiveWorkers
    from longshore.runs.watch.blockers import Blockers
    from longshore.runs.watch.breakdown import By, Part
    from longshore.runs.watch.run_span import RunSpan
    from longshore.runs.watch.watcher import RunSnapshot
    from longshore.settings import Settings

_ROWS = 100
"""The most rows of a breakdown that are shown as a table."""


def status(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run, by kind and partition.")] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT", help="Count by this instead: kind, partition, worker, host or error.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Show the progress of each run; with RUN, of its kinds and partitions, and when it will be done.

    Completion rate: the share of jobs that are finished. Success rate: the share of completed jobs among those that
    completed or failed. Claim success rate: the share of claims in the whole queue that no other worker won, if the
    queue counts it. Jobs an hour: those finished since the first was submitted. Utilisation: the share of the workers'
    slots that are busy, if all workers report it. Rejected files: the number of damaged or foreign files found in the
    place of jobs, if there are any.

    All of this comes from counters and takes no time, however many jobs there are. --by worker, host and error read
    every job.
    """
    from longshore.settings import resolve
    from longshore.ui.counts import count_json
    from longshore.ui.output import write_json

    settings = resolve({"queue": queue, "debug": debug})
    if by is not None and (what := _by(by)) is not None:
        _show_breakdown(settings, run, what, json=json)
        return
    seen = asyncio.run(_look(settings, run))
    parts = _parts(seen.counts, run, by)
    if json:
        set_aside = {} if seen.rejects is None else {"set_aside": seen.rejects.count}
        listed = [count_json(count) for count in parts]
        under = f"{by}s" if by else "lanes" if run else "runs"
        write_json({**({"run": run} if run else {}), **seen.kpis(), **set_aside, **seen.estimate_json(), under: listed})
    else:
        _show(seen, parts, run, by, settings)
        _show_rejects(seen.rejects)


def _by(text: str) -> By | None:
    """Return the breakdown that reads jobs; None if counters have it. Raise `UsageError` for anything else."""
    from longshore.errors import UsageError
    from longshore.runs.watch.breakdown import By

    if text not in list(By):
        raise UsageError(f"--by cannot be '{text}': it takes {', '.join(list(By)[:-1])} or {list(By)[-1]}.")
    return None if text in (By.KIND, By.PARTITION) else By(text)


class _Seen:
    """The answers of the queue."""

    def __init__(
        self,
        counts: list[Count],
        claims: float | None,
        rejects: RejectedFiles | None,
        active: ActiveWorkers,
        held: Blockers,
        look: RunSnapshot | None = None,
        span: RunSpan | None = None,
    ) -> None:
        from longshore.queue import totals
        from longshore.ui.counts import rates

        self.counts = counts
        self.rejects = rejects
        self.active = active
        self.held = held
        self.hosts = () if look is None else look.evidence.hosts
        self.estimate = None if look is None else look.estimate
        self.span = span
        self.rates = rates(totals(counts), claims, active.utilisation)

    def kpis(self) -> dict[str, Any]:
        from longshore.queue import totals
        from longshore.ui.counts import numbers

        workers = {} if self.active.workers is None else {"workers": self.active.workers}
        if self.active.unseen:
            workers |= {"workers_unseen": self.active.unseen}
        submissions = {"being_submitted": True} if self.active.submissions else {}
        span = {} if self.span is None else {"jobs_per_hour": round(self.span.jobs_per_hour, 1)}
        return {**numbers(totals(self.counts)), **self.rates, **span, **workers, **submissions}

    def estimate_json(self) -> dict[str, Any]:
        from longshore.ui.estimate_words import estimate_json
        from longshore.ui.notices import notices_json

        found = {} if self.estimate is None else {"estimate": estimate_json(self.estimate)}
        return {**notices_json(self.held), **found}


async def _look(settings: Settings, run: str | None) -> _Seen:
    """Return the counts, and whatever else the queue can tell."""
    from longshore.clock import SystemClock
    from longshore.extensions.claim_stats import ClaimStats
    from longshore.extensions.find import find
    from longshore.extensions.presence import WorkerRegistry
    from longshore.extensions.rejected import KeepsRejected
    from longshore.queue import totals
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.watch.active_workers import active_among
    from longshore.runs.watch.blockers import blockers_of
    from longshore.runs.watch.run_span import run_span

    async with open_existing(settings) as queue:
        # Before the counts: see `extensions.submissions`.
        registry = find(queue, WorkerRegistry)
        present = None if registry is None else await registry.present_workers()
        counts = await (counts_of(queue, run, settings) if run else queue.stats())
        claim_stats, keeps_rejected = find(queue, ClaimStats), find(queue, KeepsRejected)
        claims = None if claim_stats is None else await claim_stats.claim_success_rate()
        rejects = None if keeps_rejected is None else await keeps_rejected.rejected()
        active = active_among(present, run, claimed=totals(counts).claimed)
        span = await run_span(queue, run, totals(counts), SystemClock().now()) if run else None
        if not run or not totals(counts).remaining:
            return _Seen(counts, claims, rejects, active, await blockers_of(queue, run), span=span)
        from longshore.runs.estimate.forecast import Forecast

        watch = Forecast(queue, run, SystemClock())
        look = await watch.glance()
        return _Seen(counts, claims, rejects, active, watch.blockers, look, span)


def _parts(counts: list[Count], run: str | None, by: str | None) -> list[Count]:
    """Return the counts, added up by run or by the wanted field."""
    from longshore.queue import totals_by

    if run and not by:
        return counts
    return totals_by(counts, "run" if by is None else "kind" if by == "kind" else "partition")


def _show(seen: _Seen, parts: list[Count], run: str | None, by: str | None, settings: Settings) -> None:
    from longshore.observe.statistics import jobs_rate
    from longshore.ui.counts import numbers
    from longshore.ui.estimate_words import estimate_line
    from longshore.ui.notices import notices
    from longshore.ui.output import write
    from longshore.ui.program import queue_flag
    from longshore.ui.tables import write_table
    from longshore.ui.words import counted, duration, not_seen
    from longshore.url import mask_url

    if not parts:
        write(f"{mask_url(settings.queue)} has no jobs yet. `longshore submit` puts some in.")
        return
    names: tuple[str, ...] = (by,) if by else ("run",)
    if run and not by:
        names = ("kind", "partition") if any(count.partition for count in parts) else ("kind",)
    write_table(
        (*names, *COLUMNS, "done"),
        [(*(_name(c, name) for name in names), *(f"{n:,}" for n in numbers(c).values()), _done(c)) for c in parts],
        right=(*COLUMNS, "done"),
        cut=("done",),
    )
    if seen.active.workers:
        write(f"{counted(seen.active.workers, 'worker')} at work")
    if seen.active.unseen:
        write(not_seen(seen.active.unseen, seen.active.unseen_seconds))
    if (silence := seen.active.submissions_unseen) is not None:
        write(f"a submission was not seen for {duration(silence)}, and has probably ended")
    elif seen.active.submissions:
        write("still being submitted: more jobs may come")
    if (found := seen.estimate) is not None:
        write(estimate_line(found))
    for line in notices(seen.held, seen.hosts, queue_flag(settings)).values():
        write(line)
    kpis = [f"{name.replace('_', ' ')} {_percent(rate)}" for name, rate in seen.rates.items()]
    if seen.span is not None:
        kpis.append(f"{jobs_rate(seen.span.jobs_per_hour / 3600, hourly=True)} over {duration(seen.span.seconds)}")
    write(", ".join(kpis))


def _show_breakdown(settings: Settings, run: str | None, by: By, *, json: bool) -> None:
    from longshore.ui.output import note, write, write_json
    from longshore.ui.tables import write_table
    from longshore.ui.words import duration, one_line

    parts, workers = asyncio.run(_break_down(settings, run, by))
    if json:
        listed = [_part_json(part, by, workers) for part in parts]
        write_json({**({"run": run} if run else {}), f"{by}s": listed})
        return
    if not parts:
        write("Nothing failed." if by == "error" else "There are no such jobs yet.")
        return
    states = [name for name in COLUMNS[:-1] if any(getattr(part, name) for part in parts)]
    extra = {"worker": ("mean time", "now"), "host": ("mean time",), "error": ("for example",)}[by]
    rows = []
    for part in parts[:_ROWS]:
        mean = duration(part.seconds / part.timed) if part.timed else ""
        ends = {
            "mean time": mean,
            "now": _now(part.name, workers),
            "for example": one_line(part.example, 100),
        }
        counts = [f"{getattr(part, name):,}" for name in states]
        rows.append((part.name or NO_NAME, *counts, *(ends[name] for name in extra)))
    write_table((by, *states, *extra), rows, right=(*states, "mean time"), cut=(by, "for example"))
    if len(parts) > _ROWS:
        note(f"The first {_ROWS} of {len(parts):,}; --json has them all.")


async def _break_down(settings: Settings, run: str | None, by: By) -> tuple[list[Part], list[PresentWorker]]:
    from longshore.extensions.find import find
    from longshore.extensions.presence import WorkerRegistry
    from longshore.extensions.submissions import workers_among
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.watch.active_workers import works_on
    from longshore.runs.watch.breakdown import breakdown
    from longshore.ui.progress import counting

    async with open_existing(settings) as queue:
        if run:
            await counts_of(queue, run, settings)
        registry = find(queue, WorkerRegistry)
        present = [] if registry is None else await registry.present_workers()
        there = [each for each in workers_among(present) if run is None or works_on(each, run)]
        with counting(lambda read: f"Reading: {read:,} jobs") as progress:
            return await breakdown(queue, run, by, progress), there


def _part_json(part: Part, by: By, workers: list[PresentWorker]) -> dict[str, Any]:
    from longshore.runs.watch.active_workers import seen_among

    mean = {"mean_seconds": round(part.seconds / part.timed, 3)} if part.timed else {}
    example = {"example": part.example} if part.example else {}
    present = {"present": any(each.worker.label == part.name for each in seen_among(workers))} if by == "worker" else {}
    counts = {name: getattr(part, name) for name in COLUMNS[:-1]}
    return {by: part.name, **counts, **mean, **example, **present}


def _now(label: str, workers: list[PresentWorker]) -> str:
    """Return what a worker does now, according to the worker registry."""
    from longshore.ui.words import duration

    for each in workers:
        if each.worker.label == label:
            busy, slots = each.info.busy, each.info.slots
            if each.unseen_seconds is not None:
                return f"not seen for {duration(each.unseen_seconds)}"
            return "at work" if busy is None or slots is None else f"{busy:,} of {slots:,} busy"
    return ""


def _show_rejects(rejects: RejectedFiles | None) -> None:
    from longshore.ui.output import write

    if rejects is not None and rejects.count:
        write(f"rejected files: {rejects.count:,} (damaged or foreign; see {rejects.where})")


def _percent(rate: float) -> str:
    # Rounded down, so that 100 % means all; the addend corrects floats such as 28.999….
    return f"{floor(100 * rate + 1e-9)}%"


def _name(count: Count, name: str) -> str:
    named: str = getattr(count, name)
    if named:
        return named
    return NO_RUN if name == "run" else NO_NAME if name == "partition" else named


def _done(count: Count) -> str:
    if count.remaining:
        # Rounded down: 100 % means all.
        return f"{100 * (count.total - count.remaining) // count.total}%"
    troubles = [f"{number:,} {name}" for name in ("failed", "cancelled") if (number := getattr(count, name))]
    return ", ".join(["finished", *troubles]) if troubles else "100%"
