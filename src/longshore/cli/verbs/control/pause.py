"""`longshore pause` and `longshore resume`: no job of a paused run begins until it is resumed."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.settings import Settings

_Run = Annotated[str | None, typer.Argument(metavar="RUN", help="The run.", show_default=False)]
_All = Annotated[
    bool, typer.Option("--all", metavar="", help="Everything in the queue, and everything submitted later.")
]


def pause(
    run: _Run = None,
    everything: _All = False,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Pause a run: no worker begins a job of it. Without a run, list what is paused.

    Workers finish the jobs they hold. They follow within seconds, on a queue in a repository or a folder within half a
    minute. Jobs may be submitted meanwhile. `longshore resume` lets the run go on.
    """
    from longshore.settings import resolve
    from longshore.ui.output import write, write_json
    from longshore.ui.words import moment

    settings = resolve({"queue": queue, "debug": debug})
    if run is not None or everything:
        asyncio.run(_change(settings, _named(run, everything=everything), pausing=True))
        return
    found = asyncio.run(_paused(settings))
    if json:
        write_json(found)
    elif not found:
        write("Nothing is paused.")
    for name, since in () if json else found.items():
        write(f"{_subject(name)} is paused since {moment(since)}.")


def resume(
    run: _Run = None, everything: _All = False, queue: options.Queue = None, debug: options.Debug = None
) -> None:
    """Resume a paused run; with --all, undo `longshore pause --all`."""
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    asyncio.run(_change(settings, _named(run, everything=everything), pausing=False))


def _named(run: str | None, *, everything: bool) -> str:
    from longshore.runs.control.pause import EVERYTHING

    if (run is None) is not everything:
        raise UsageError("Name a run, or say --all.")
    return EVERYTHING if run is None else run


async def _change(settings: Settings, run: str, *, pausing: bool) -> None:
    from longshore.runs.control.pause import EVERYTHING, change_pause, paused
    from longshore.runs.open_queue import open_existing
    from longshore.ui.output import write
    from longshore.ui.program import queue_flag

    flag = queue_flag(settings)
    async with open_existing(settings) as queue:
        changed = await change_pause(queue, run, settings, pausing=pausing)
        still = EVERYTHING in await paused(queue) and run != EVERYTHING
    if pausing:
        again = ("--all" if run == EVERYTHING else shlex.quote(run)) + flag
        write(f"{_subject(run)} is paused{'' if changed else ' already'}. To let it go on: longshore resume {again}")
    elif still:
        write(f"{_subject(run)} itself is not paused, but everything is: longshore resume --all{flag}")
    else:
        write(f"{_subject(run)} goes on." if changed else f"{_subject(run)} was not paused.")


async def _paused(settings: Settings) -> dict[str, float]:
    from longshore.runs.control.pause import paused
    from longshore.runs.open_queue import open_existing

    async with open_existing(settings) as queue:
        return await paused(queue)


def _subject(run: str) -> str:
    from longshore.runs.control.pause import EVERYTHING

    return "Everything" if run == EVERYTHING else f"Run {run}"
