"""The fields of a failure in a log line: its type and message; for an unexpected error, also its class and place."""

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


def fields_of(failure: Failure) -> dict[str, Any]:
    """Return the fields of a log line about this failure."""
    fields = {"error_type": failure.error_type, "error": short(failure.message)}
    if failure.error_type != WorkerError.error_type:
        return fields
    name = failure.exception_name
    if name and failure.message != name:
        fields["error"] = short(f"{name}: {failure.message}")
    if failure.traceback:
        fields |= {"at": place_of(failure.traceback), "exception": failure.traceback.rstrip()}
    return fields


def place_of(traceback: str) -> str:
    """Return the innermost frame outside libraries as `file:line`; the innermost frame if all are in libraries.

    It is read from the traceback's text, which may come from another process. Empty if the text has no frame.
    """
    frames = _FRAME.findall(traceback)
    if not frames:
        return ""
    file, line = next((frame for frame in reversed(frames) if not frame[0].startswith(_FOREIGN)), frames[-1])
    here = f"{Path.cwd()}/"
    return f"{file.removeprefix(here)}:{line}"


def short(text: str) -> str:
    """Return the text on one line, truncated to `_LONGEST_ERROR` characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"
