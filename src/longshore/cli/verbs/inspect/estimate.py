"""`longshore estimate`: when a run will be done, and what it waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.runs.estimate.estimate import Basis, Estimate
    from longshore.runs.watch.blockers import Blockers
    from longshore.runs.watch.watcher import RunSnapshot
    from longshore.settings import Settings

_WATCHED = 3.0
"""Seconds between the two looks: the second tells how fast it goes now."""
_SURVEYED = 10.0
"""Seconds for which pending jobs are read at most, to see which hosts they are for."""
_WORDS = {
    "workers": ("the workers", "twice as many would take about half the time"),
    "host": ("the rate of {host}", "more workers would not help"),
    "retries": ("retries", "attempts that fail, and the pauses before the next"),
    "delays": ("delays", "jobs that may not begin yet"),
    "stragglers": ("stragglers", "a few long jobs, while most workers have nothing to do"),
    "nobody": ("nobody", "start a worker"),
}
"""What binds, and what that means."""


def estimate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.", show_default=False)],
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """When a run will be done: half of such runs end within the first time, nine of ten within the second.

    What binds is what would have to change for it to end sooner: the workers, the rate of a host, retries, delays, or a
    few long jobs. It takes some seconds, as it looks twice to see how fast the run goes. Where nothing has finished yet
    it says so, and gives no number.
    """
    from longshore.settings import resolve
    from longshore.ui.notices import notices, notices_json
    from longshore.ui.output import write, write_json

    settings = resolve({"queue": queue, "debug": debug})
    look, held = asyncio.run(_look(settings, run))
    found = look.estimate
    if json:
        write_json({"run": run, "remaining": look.count.remaining, **estimate_json(found), **notices_json(held)})
        return
    for line in (*_said(look, found), *notices(held, look.evidence.hosts).values()):
        write(line)


async def _look(settings: Settings, run: str) -> tuple[RunSnapshot, Blockers]:
    from longshore.clock import SystemClock
    from longshore.runs.estimate.forecast import Forecast
    from longshore.runs.open_queue import counts_of, opened_existing

    clock = SystemClock()
    async with opened_existing(settings) as queue:
        await counts_of(queue, run, settings)
        watch = Forecast(queue, run, clock)
        look = await watch.look()
        if look.count.remaining:
            began = clock.monotonic()
            await watch.survey(_SURVEYED)
            await clock.sleep(max(_WATCHED - (clock.monotonic() - began), 0.0))
            look = await watch.look()
        return look, watch.blockers


def _said(look: RunSnapshot, found: Estimate) -> list[str]:
    import time

    from longshore.ui.output import counted, duration, moment, printable

    if not look.count.remaining:
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
    from longshore.ui.output import counted, duration

    parts = [f"{counted(basis.finished, 'job')} finished in {duration(basis.seconds)}"]
    if basis.workers:
        parts.append(f"{counted(basis.workers, 'worker')}")
    return ", ".join([*parts, f"about {basis.slots:.3g} under way at once"])


def binding_words(found: Estimate) -> str:
    """What binds and what that means, in words; nothing where that is not known."""
    from longshore.ui.output import printable

    if found.untaken:
        return f"{_bound_by(found)}: start a worker that takes {printable(', '.join(found.untaken))}"
    return "" if found.binds is None else f"{_bound_by(found)}: {_WORDS[found.binds][1]}"


def _bound_by(found: Estimate) -> str:
    from longshore.ui.output import printable

    return "" if found.binds is None else _WORDS[found.binds][0].format(host=printable(found.host))


def estimate_line(found: Estimate) -> str:
    """Both times, what binds and what that means; where they are not known, why."""
    return _line(found, binding_words(found))


def short_estimate_line(found: Estimate) -> str:
    """The same for a hundred columns: without what it means."""
    return _line(found, _bound_by(found))


def _line(found: Estimate, binds: str) -> str:
    from longshore.ui.output import printable

    if found.p50 is None:
        return f"time left not known yet: {printable(found.unknown)}"
    return f"{time_left(found)}; what binds: {binds}"


def time_left(found: Estimate) -> str:
    """`2 min 10 s to 3 min left`; nothing where it is not known."""
    from longshore.ui.output import left_words

    return "" if found.p50 is None or found.p90 is None else left_words(found.p90, soonest=found.p50)


def estimate_json(found: Estimate) -> dict[str, Any]:
    """An estimate for programs, in seconds from now."""
    import msgspec

    rounded = {name: None if value is None else round(value, 1) for name, value in _times(found).items()}
    return {
        **rounded,
        "binds": found.binds,
        **({"host": found.host} if found.host else {}),
        **({"untaken": found.untaken} if found.untaken else {}),
        **({"unknown": found.unknown} if found.unknown else {}),
        **({"basis": msgspec.to_builtins(found.basis)} if found.basis else {}),
    }


def _times(found: Estimate) -> dict[str, float | None]:
    return {"p50_seconds": found.p50, "p90_seconds": found.p90}
