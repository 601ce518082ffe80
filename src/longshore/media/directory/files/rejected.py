"""Rejected files: logged when they are moved to rejected/, and counted on request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from longshore.media.directory.files import disk

REASON = ".reason.txt"
"""The suffix of the file with the reason, beside a rejected file."""
LINES_A_MINUTE = 5
"""A folder that was copied in by mistake may have thousands of files; the first few lines show what is wrong."""

log = logging.getLogger(__name__)


def count(root: str) -> int:
    """Return the number of rejected files, without their reasons."""
    return sum(not name.endswith(REASON) for name in disk.names(f"{root}/rejected"))


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
