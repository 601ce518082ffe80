"""The name to call this program by, and its queue, so that every command it prints can be run as printed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.url import mask_url

if TYPE_CHECKING:
    from longshore.settings import Settings


def program(folder: Path | None = None) -> str:
    """Return `longshore` if that is on the path and is this program; else its path, or `python -m longshore`.

    `folder` is the folder in which the command will be typed, if that is not the current one.
    """
    called = Path(sys.argv[0])
    if called.stem.lower() != "longshore":
        return f"{python(folder)} -m longshore"
    found = shutil.which("longshore")
    return "longshore" if found and Path(found).resolve() == called.resolve() else _near(called, folder)


def python(folder: Path | None = None) -> str:
    """Return the name of the interpreter if that is on the path and is this one; else its path."""
    this = Path(sys.executable)
    found = shutil.which(this.name)
    return this.name if found and Path(found) == this else _near(this, folder)


def queue_flag(settings: Settings) -> str:
    """Return the option that a printed command needs to find the same queue; empty if the settings name it."""
    if settings.source("queue").level != "command line":
        return ""
    if mask_url(settings.queue) != settings.queue:
        # The password is not printed; the person who typed it can set the variable.
        return ' --queue "$LONGSHORE_QUEUE"'
    return f" --queue {shlex.quote(settings.queue)}"


def _near(path: Path, folder: Path | None) -> str:
    try:
        return str(path.absolute().relative_to((folder or Path()).absolute()))
    except ValueError:
        return str(path.absolute())
