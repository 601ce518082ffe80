"""Rejected files: logged when they are moved to rejected/, and counted on request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import msgspec

from longshore.media.directory.files import disk

REASON = ".reason.txt"
"""The suffix of the file with the reason, beside a rejected file."""
FOUND_AT, RUN, JOBS = "It was found at ", "Its run is ", "Jobs: "
"""How lines of a reason begin; a path, a run as JSON and a number follow."""
LINES_A_MINUTE = 5
"""A folder that was copied in by mistake may have thousands of files; the first few lines show what is wrong."""

log = logging.getLogger(__name__)


def count(root: str, run: str | None, lanes: Mapping[str, str]) -> int:
    """Return the number of rejected files and missing jobs; with `run`, of those that belong to it.

    `lanes` has the run of each lane: the reason beside a file names the run, or at least its path with the lane.
    """
    names = disk.names(f"{root}/rejected")
    files = [name for name in names if not name.endswith(REASON)]
    alone = set(names).difference(files, (f"{name}{REASON}" for name in files))
    if run is None:
        return len(files) + sum(_jobs(_lines(root, name)) for name in alone)
    reasons = [_lines(root, name) for name in names if name.endswith(REASON)]
    return sum(max(1, _jobs(lines)) for lines in reasons if _run_of(lines, lanes) == run)


def missing_text(run: str, number: int) -> bytes:
    """Return the text that reports jobs whose files are gone; it is written without a file beside it."""
    reason = "The files of these jobs were removed by hand, so the jobs are out of the queue."
    return f"{reason}\n{RUN}{msgspec.json.encode(run).decode()}\n{JOBS}{number}\n".encode()


def _lines(root: str, name: str) -> list[str]:
    try:
        return disk.read(f"{root}/rejected/{name}").decode(errors="replace").splitlines()
    except OSError:
        return []


def _jobs(lines: list[str]) -> int:
    found = [line.removeprefix(JOBS) for line in lines if line.startswith(JOBS)]
    return int(found[0]) if found and found[0].isdecimal() else 0


def _run_of(lines: list[str], lanes: Mapping[str, str]) -> str | None:
    for line in lines:
        if line.startswith(RUN):
            try:
                return msgspec.json.decode(line.removeprefix(RUN), type=str)
            except msgspec.DecodeError:
                return None
    paths = [line.removeprefix(FOUND_AT) for line in lines if line.startswith(FOUND_AT)]
    return next((lanes[part] for path in paths for part in path.split("/") if part in lanes), None)


class RejectedReporter:
    """Logs rejected files, at most `LINES_A_MINUTE` lines per minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._minute = float("-inf")
        self._lines = self._unreported = 0

    def report(self, path: str, reason: str) -> None:
        """Log that the file at `path` was rejected, and why."""
        now = self._monotonic()
        if now - self._minute >= 60.0:
            self._minute, self._lines = now, 0
        if self._lines == LINES_A_MINUTE:
            self._unreported += 1
            return
        self._lines += 1
        before = f" ({self._unreported:,} more before it)" if self._unreported else ""
        after = "; further files within this minute are not listed" if self._lines == LINES_A_MINUTE else ""
        self._unreported = 0
        log.warning("Moved to rejected/: %r. %s%s%s", path, reason.rstrip("."), before, after)


report = RejectedReporter().report
"""The reporter of this process."""
