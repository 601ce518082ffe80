"""`longshore top`: watch a queue or a run live in the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.settings import Settings


def top(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run instead of all of them.")] = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Watch the queue live: throughput, time left, workers, hosts, failures by kind, and single jobs.

    Keys: enter looks closer and escape goes back, r retries and c cancels what is chosen (each asks first), / filters,
    ? explains, q leaves. Watching has no effect on the work.
    """
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream.isatty() for stream in streams) or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "`longshore top` needs a terminal to draw on. `longshore status` prints how it stands once; with --json, "
            "for programs."
        )
    asyncio.run(_top(settings, run))


async def _top(settings: Settings, run: str | None) -> None:
    from longshore.clock import SystemClock
    from longshore.fleet.launch.stop_signals import stop_signals
    from longshore.observe.logs import configure_relay
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.top.screens.app import Top
    from longshore.ui.program import queue_flag
    from longshore.url import mask_url

    async with open_existing(settings) as queue:
        if run is not None:
            await counts_of(queue, run, settings)
        where, flag = mask_url(settings.queue), queue_flag(settings)
        app = Top(queue, SystemClock(), where=where, run=run, folder=Path.cwd(), flag=flag)
        # Log messages of this process would otherwise appear in the middle of the screen.
        configure_relay(app.notify_of, level="warning")
        with stop_signals(app.exit):
            await app.run_async()
        if app.fault is not None:
            raise app.fault
