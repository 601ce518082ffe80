"""`longshore autoscale-target`: print how many workers the pending jobs need, for other programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.fleet.sizing.autoscale import PER, QueueLoad, ScalingPolicy, SizeBounds

if TYPE_CHECKING:
    from longshore.queue import Count
    from longshore.settings import Settings


def autoscale_target(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run to size for. Left out: everything in the queue.")
    ] = None,
    per: Annotated[int, typer.Option(metavar="N", min=1, help="One worker for every N pending jobs.")] = PER,
    bounds: Annotated[str, typer.Option(metavar="MIN:MAX", help="The fewest and the most workers.")] = str(
        SizeBounds()
    ),
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Print how many workers the pending jobs need: only a number, for KEDA, compose, cron and the like.

    One worker for every N pending jobs, rounded up, within the bounds; at least one while a job is claimed. Memory and
    processors of this machine do not count, as the workers may be elsewhere. --json adds the counts behind the number.
    """
    from longshore.queue import totals
    from longshore.settings import resolve
    from longshore.ui.output import write, write_json

    policy = ScalingPolicy(SizeBounds.parse(bounds, "--bounds"), per)
    settings = resolve({"queue": queue, "debug": debug})
    count = totals(asyncio.run(_counted(settings, run)))
    load = QueueLoad(count.pending, count.claimed)
    target = policy.target(load)
    if not json:
        write(str(target))
        return
    basis = {"pending": load.pending, "claimed": load.claimed, "per": per, "bounds": str(policy.bounds)}
    write_json({"target": target, **({"run": run} if run else {}), **basis})


async def _counted(settings: Settings, run: str | None) -> list[Count]:
    from longshore.runs.open_queue import counts_of, open_existing

    async with open_existing(settings) as queue:
        return await (counts_of(queue, run, settings) if run else queue.stats())
