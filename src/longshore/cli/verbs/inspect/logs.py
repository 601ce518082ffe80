"""`longshore logs`: show the logs of the workers and the fleet of this folder, and follow them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.errors import NotFoundError

if TYPE_CHECKING:
    from longshore.observe.log_tail import LogFollower

_LOOK_SECONDS = 0.25
_NEW_FILES_EVERY = 8
"""Looks between two searches for files that have appeared."""


def logs(
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER", help="Only this worker, by its number or name; or fleet, or proxies.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Go on with the lines that are added, until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option(metavar="N", min=0, help="How many of the last lines of each log.")] = 20,
) -> int:
    """Show the last lines of the logs in this folder: of the fleet, of each worker, of the proxies.

    The logs are the files in logs/, and those of 'longshore run' in .longshore/logs/. Secrets in them are masked.
    """
    from longshore.observe.log_tail import LogFollower, last_lines, log_files
    from longshore.ui.output import note, write

    files = log_files(Path(), worker)
    if not files and not follow:
        which = "no log" if worker is None else f"no log of '{worker}'"
        raise NotFoundError(f"There is {which} in {Path().absolute()}. Go to where the workers were started.")
    # Before the last lines are read: what is added meanwhile is shown twice rather than not at all.
    open_files = [LogFollower(path) for path in files] if follow else []
    for path in files:
        if len(files) > 1 or follow:
            write(f"==> {path} <==")
        try:
            for line in last_lines(path, lines):
                write(line)
        except OSError as error:
            note(f"longshore: {path} cannot be read: {error.strerror}")
    if follow:
        _follow(worker, open_files)
    return 0


def _follow(worker: str | None, open_files: list[LogFollower]) -> None:
    """Write the lines that are added, under the name of their file. Returns at Ctrl-C."""
    import threading

    from longshore.observe.log_tail import followers
    from longshore.ui.output import write

    pause, shown, looks = threading.Event(), open_files[-1].path if open_files else None, 0
    try:
        while True:
            for each in open_files:
                for line in each.new_lines():
                    if each.path != shown:
                        shown = each.path
                        write(f"==> {shown} <==")
                    write(line)
            sys.stdout.flush()
            pause.wait(_LOOK_SECONDS)
            looks += 1
            if looks % _NEW_FILES_EVERY == 0:
                open_files += followers(Path(), worker, open_files)
    except KeyboardInterrupt:
        return
