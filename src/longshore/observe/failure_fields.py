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
    file, line = next((frame for frame in reversed(frames) if not _is_foreign(frame[0])), frames[-1])
    here = f"{Path.cwd()}/"
    return f"{file.removeprefix(here)}:{line}"


def own_frames_first(traceback: str) -> str:
    """Return a traceback for people: the frames of the user's code, and of libraries only how many there are.

    Longshore's own frames, which called the handler, are left out. Without a frame of the user's, it is returned whole.
    """
    lines = traceback.rstrip().splitlines()
    frames = _frames_in(lines)
    if not any(own for _, own in frames):
        return "\n".join(lines)
    shown: list[str] = []
    passed_over = 0
    called = False
    for part, own in frames:
        if own is False:
            passed_over += called
            continue
        if passed_over:
            shown.append(f"  … {passed_over} {'frame' if passed_over == 1 else 'frames'} of libraries")
        passed_over, called = 0, bool(own)
        shown += part
    return "\n".join(shown)


def _frames_in(lines: list[str]) -> list[tuple[list[str], bool | None]]:
    """Return the lines in parts: a frame, with whether it is the user's, or other lines, with None."""
    parts: list[tuple[list[str], bool | None]] = []
    for line in lines:
        if (frame := _FRAME.match(line.lstrip())) is not None and line.startswith("  "):
            parts.append(([line], not _is_foreign(frame[1])))
        elif parts and parts[-1][1] is not None and line.startswith("    "):
            parts[-1][0].append(line)
        else:
            parts.append(([line], None))
    return parts


def _is_foreign(file: str) -> bool:
    # The traceback may come from another machine, whose libraries are elsewhere.
    return file.startswith(_FOREIGN) or "/site-packages/" in file.replace("\\", "/")


def short(text: str) -> str:
    """Return the text on one line, truncated to `_LONGEST_ERROR` characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"
