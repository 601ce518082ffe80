"""What a log line says of a failure: its sort and its words, and for one that nobody foresaw, its class and place."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

from longshore.errors import Failure, WorkerError

_LONGEST_ERROR = 300
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_OWN = str(Path(__file__).parent.parent)
_FOREIGN = (_OWN, "<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


def said_of(failure: Failure) -> dict[str, Any]:
    """The values of a log line about this failure."""
    said = {"error_type": failure.error_type, "error": short(failure.message)}
    if failure.error_type != WorkerError.error_type:
        return said
    name = failure.exception_name
    if name and failure.message != name:
        said["error"] = short(f"{name}: {failure.message}")
    if failure.traceback:
        said |= {"at": place_of(failure.traceback), "exception": failure.traceback.rstrip()}
    return said


def place_of(traceback: str) -> str:
    """The innermost place that is not a library's, as `file:line`; the innermost of all where there is none.

    Read from the traceback's text, which may come from another process. Empty where it names no place.
    """
    frames = _FRAME.findall(traceback)
    if not frames:
        return ""
    file, line = next((frame for frame in reversed(frames) if not frame[0].startswith(_FOREIGN)), frames[-1])
    here = f"{Path.cwd()}/"
    return f"{file.removeprefix(here)}:{line}"


def short(text: str) -> str:
    """The text on one line, cut where it is very long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"
