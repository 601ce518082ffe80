"""What lies in rejected/: told when it gets there, and counted when someone asks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from longshore.media.directory.files import disk

REASON = ".reason.txt"
"""The end of the name of what is written beside a file that was set aside."""
LINES_A_MINUTE = 5
"""A folder that was copied in by mistake has thousands of files; the first few say what is wrong."""

log = logging.getLogger(__name__)


def count(root: str) -> int:
    """How much was set aside, the reasons not counted."""
    return sum(not name.endswith(REASON) for name in disk.names(f"{root}/rejected"))


class RejectedReporter:
    """Says what is set aside, to the log, and no more than can be read."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._minute = float("-inf")
        self._lines = self._untold = 0

    def tell(self, path: str, reason: str) -> None:
        """This was set aside, for this reason."""
        now = self._monotonic()
        if now - self._minute >= 60.0:
            self._minute, self._lines = now, 0
        if self._lines == LINES_A_MINUTE:
            self._untold += 1
            return
        self._lines += 1
        before = f" ({self._untold:,} more before it)" if self._untold else ""
        after = "; what else comes within a minute is not named" if self._lines == LINES_A_MINUTE else ""
        self._untold = 0
        log.warning("Set aside in rejected/: %r. %s%s%s", path, reason.rstrip("."), before, after)


tell = RejectedReporter().tell
"""That of this process."""
