"""`longshore status`: how far the runs are."""

from __future__ import annotations

import asyncio
from math import floor
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.queue import Count
    from longshore.races import CountsRaces
    from longshore.rejects import Rejects, SetsAside
    from longshore.settings import Settings

NO_RUN = "(no run)"
COLUMNS = ("pending", "claimed", "completed", "failed", "cancelled", "remaining")


def status(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run, by kind and partition.")] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """How far each run is; with RUN, how far its kinds and partitions are.

    Completion rate: the share of jobs that are finished. Success rate: the share of the completed among those that
    completed or failed. Claim success rate: the share of claims that no other worker was faster at, on the whole queue,
    where the queue counts it. Set aside: files in the place of jobs that were damaged or did not belong, where there
    are any.
    """
    from longshore.cli.output import write_json
    from longshore.queue import totals
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    counts, claims, rejects = asyncio.run(_look(settings, run))
    rates = _rates(totals(counts), claims)
    if json:
        parts = [count_json(count) for count in (counts if run else _by_run(counts))]
        head = {"run": run} if run else {}
        aside = {} if rejects is None else {"set_aside": rejects.count}
        write_json({**head, **numbers(totals(counts)), **rates, **aside, ("lanes" if run else "runs"): parts})
    else:
        _show(run, counts, rates, settings)
        _show_rejects(rejects)


async def _look(settings: Settings, run: str | None) -> tuple[list[Count], float | None, Rejects | None]:
    """The counts; and the claim success rate and what was set aside, where the queue knows them."""
    from longshore.cli.opened import counts_of, opened_existing

    async with opened_existing(settings) as queue:
        counts = await (counts_of(queue, run, settings) if run else queue.stats())
        claims = await cast("CountsRaces", queue).claim_success_rate() if queue.traits.counts_races else None
        rejects = await cast("SetsAside", queue).set_aside() if queue.traits.sets_aside else None
        return counts, claims, rejects


def _rates(count: Count, claims: float | None) -> dict[str, float]:
    """The rates that can be known, 1 being all."""
    rates = {"completion_rate": (count.total - count.remaining) / count.total} if count.total else {}
    if judged := count.completed + count.failed:
        rates["success_rate"] = count.completed / judged
    return rates if claims is None else {**rates, "claim_success_rate": claims}


def numbers(count: Count) -> dict[str, int]:
    """The counts by name."""
    return {name: getattr(count, name) for name in COLUMNS}


def count_json(count: Count) -> dict[str, Any]:
    """A count with the names of what it counts, where it has them."""
    names = {name: getattr(count, name) for name in ("run", "kind", "partition") if getattr(count, name)}
    return {**names, **numbers(count)}


def _by_run(counts: list[Count]) -> list[Count]:
    import msgspec

    from longshore.queue import totals

    runs = dict.fromkeys(count.run for count in counts)
    return [msgspec.structs.replace(totals([c for c in counts if c.run == run]), run=run) for run in runs]


def _show(run: str | None, counts: list[Count], rates: dict[str, float], settings: Settings) -> None:
    from longshore.cli.output import write, write_table
    from longshore.url import mask_url

    if not counts:
        write(f"{mask_url(settings.queue)} has no jobs yet. `longshore submit` puts some in.")
        return
    rows = counts if run else _by_run(counts)
    names = (
        ("kind", "partition") if run and any(count.partition for count in counts) else ("kind",) if run else ("run",)
    )
    write_table(
        (*names, *COLUMNS, "done"),
        [(*(_name(c, name) for name in names), *(f"{n:,}" for n in numbers(c).values()), _done(c)) for c in rows],
        right=(*COLUMNS, "done"),
        cut=("done",),
    )
    write(", ".join(f"{name.replace('_', ' ')} {_percent(rate)}" for name, rate in rates.items()))


def _show_rejects(rejects: Rejects | None) -> None:
    from longshore.cli.output import write

    if rejects is not None and rejects.count:
        write(f"set aside: {rejects.count:,} (damaged, or none of the queue's; see {rejects.where})")


def _percent(rate: float) -> str:
    # Rounded down, 100 % means all; but 0.29 of a hundred is 28.999… to a computer.
    return f"{floor(100 * rate + 1e-9)}%"


def _name(count: Count, name: str) -> str:
    named: str = getattr(count, name)
    return NO_RUN if name == "run" and not named else named


def _done(count: Count) -> str:
    if count.remaining:
        # Rounded down: 100 % means all.
        return f"{100 * (count.total - count.remaining) // count.total}%"
    troubles = [f"{number:,} {name}" for name in ("failed", "cancelled") if (number := getattr(count, name))]
    return ", ".join(["finished", *troubles]) if troubles else "100%"
