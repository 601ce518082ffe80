"""The push lock: which process of this machine may contact the remote, and whether the one before it timed out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

from longshore.system.file_lock import FileLock


class PushLock(FileLock):
    """The push lock. If the remote times out for one process, those that wait for the lock do not try as well."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "longshore-push.lock")
        self._mark = folder / "longshore-silence"
        self.gave_up_meanwhile = False
        """Whether the remote timed out for another process while this one waited for the lock."""
        self.timed_out = False
        """Whether the remote timed out for this process since it took the lock."""

    def __enter__(self) -> Self:
        asked = time.monotonic()
        super().__enter__()
        self.gave_up_meanwhile, self.timed_out = instant_in(self._mark) >= asked, False
        return self

    def give_up(self) -> None:
        """Record that the remote timed out, for the processes that wait for the lock."""
        self.timed_out = True
        self._mark.write_text(repr(time.monotonic()))


def instant_in(file: Path) -> float:
    """Return the monotonic instant that a process of this machine wrote to a file; minus infinity if there is none."""
    try:
        written = float(file.read_text())
    except (FileNotFoundError, ValueError):
        return float("-inf")
    # A reboot resets the clock: an instant from before it may be months in the future, and is ignored.
    return written if written <= time.monotonic() else float("-inf")
