"""`longshore estimate`: estimate when a run will be done, and what limits it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.runs.estimate.estimate import Basis, Estimate
    from longshore.runs.watch.blockers import Blockers
    from longshore.runs.watch.watcher import RunSnapshot
    from longshore.settings import Settings

_WATCHED = 3.0
"""Seconds between the two reads of the counters, from which the present rate follows."""
_SURVEYED = 10.0
"""The most seconds for which pending jobs are read, to count them by host."""


def estimate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.", show_default=False)],
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Estimate when a run will be done: half of such runs end within the first time, nine of ten within the second.

    "What binds" names what would have to change for the run to end sooner: the workers, the rate of a host, retries,
    delays, or a few long jobs. The command takes some seconds, as it measures how fast the run goes. If nothing has
    finished yet, it says so and gives no number.
    """
    from longshore.settings import resolve
    from longshore.ui.estimate_words import estimate_json
    from longshore.ui.notices import notices, notices_json
    from longshore.ui.output import write, write_json
    from longshore.ui.program import queue_flag

    settings = resolve({"queue": queue, "debug": debug})
    look, held = asyncio.run(_look(settings, run))
    found = look.estimate
    if json:
        write_json({"run": run, "remaining": look.count.remaining, **estimate_json(found), **notices_json(held)})
        return
    for line in (*_lines(look, found), *notices(held, look.evidence.hosts, queue_flag(settings)).values()):
        write(line)


async def _look(settings: Settings, run: str) -> tuple[RunSnapshot, Blockers]:
    from longshore.clock import SystemClock
    from longshore.runs.estimate.forecast import Forecast
    from longshore.runs.open_queue import counts_of, open_existing

    clock = SystemClock()
    async with open_existing(settings) as queue:
        await counts_of(queue, run, settings)
        watch = Forecast(queue, run, clock)
        look = await watch.look()
        if not look.finished:
            began = clock.monotonic()
            await watch.survey(_SURVEYED)
            await clock.sleep(max(_WATCHED - (clock.monotonic() - began), 0.0))
            look = await watch.look()
        return look, watch.blockers


def _lines(look: RunSnapshot, found: Estimate) -> list[str]:
    import time

    from longshore.system.printable import printable
    from longshore.ui.estimate_words import binding_words
    from longshore.ui.words import counted, duration, moment

    if look.finished:
        return ["It is done: nothing is left to do."]
    if found.p50 is None or found.p90 is None:
        lines = [f"Not known yet: {printable(found.unknown)}. {counted(look.count.remaining, 'job')} are left."]
        if found.untaken:
            lines.append("To start a worker for it: longshore work FILE, where FILE has a handler for that kind")
        elif found.binds == "nobody":
            lines.append("To start a worker: longshore work FILE")
        return lines
    now = time.time()
    lines = [
        f"half of such runs end within      {duration(found.p50)} ({moment(now + found.p50)})",
        f"nine of ten such runs end within  {duration(found.p90)} ({moment(now + found.p90)})",
        f"what binds                        {binding_words(found)}",
    ]
    return [*lines, f"based on                          {_basis(found.basis)}"] if found.basis else lines


def _basis(basis: Basis) -> str:
    from longshore.ui.words import counted, duration

    parts = [f"{counted(basis.finished, 'job')} finished in {duration(basis.seconds)}"]
    if basis.workers:
        parts.append(f"{counted(basis.workers, 'worker')}")
    return ", ".join([*parts, f"about {basis.slots:.3g} under way at once"])
