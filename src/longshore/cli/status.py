"""`longshore status`: how far the runs are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.queue import Count
    from longshore.settings import Settings

NO_RUN = "(no run)"
COLUMNS = ("pending", "claimed", "completed", "failed", "cancelled", "remaining")


def status(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run, by kind and partition.")] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """How far each run is; with RUN, how far its kinds and partitions are."""
    from longshore.cli.output import write_json
    from longshore.queue import totals
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    counts = asyncio.run(_counts(settings, run))
    if json:
        parts = [count_json(count) for count in (counts if run else _by_run(counts))]
        head = {"run": run} if run else {}
        write_json({**head, **numbers(totals(counts)), ("lanes" if run else "runs"): parts})
    else:
        _show(run, counts, settings)


async def _counts(settings: Settings, run: str | None) -> list[Count]:
    from longshore.cli.opened import counts_of, opened_existing

    async with opened_existing(settings) as queue:
        return await (counts_of(queue, run, settings) if run else queue.stats())


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


def _show(run: str | None, counts: list[Count], settings: Settings) -> None:
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


def _name(count: Count, name: str) -> str:
    named: str = getattr(count, name)
    return NO_RUN if name == "run" and not named else named


def _done(count: Count) -> str:
    if count.remaining:
        # Rounded down: 100 % means all.
        return f"{100 * (count.total - count.remaining) // count.total}%"
    troubles = [f"{number:,} {name}" for name in ("failed", "cancelled") if (number := getattr(count, name))]
    return ", ".join(["finished", *troubles]) if troubles else "100%"
