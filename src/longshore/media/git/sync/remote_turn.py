"""Whose turn it is, of the processes of this machine, to talk to the remote; and what the one before found out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

from longshore.system.file_lock import FileLock


class RemoteTurn(FileLock):
    """The push lock. A remote that is silent is waited for by one process, not by one after the other."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "longshore-push.lock")
        self._mark = folder / "longshore-silence"
        self.in_vain = False
        """Whether the remote was given up by another while this one waited for its turn."""
        self.unanswered = False
        """Whether it was given up in this turn."""

    def __enter__(self) -> Self:
        asked = time.monotonic()
        super().__enter__()
        self.in_vain, self.unanswered = instant_in(self._mark) >= asked, False
        return self

    def give_up(self) -> None:
        """The remote did not answer: say so to those who wait."""
        self.unanswered = True
        self._mark.write_text(repr(time.monotonic()))


def instant_in(file: Path) -> float:
    """The instant that a process of this machine has noted, by the monotonic clock; long ago where there is none."""
    try:
        noted = float(file.read_text())
    except (FileNotFoundError, ValueError):
        return float("-inf")
    # The clock begins anew when the machine does, and what was noted before may lie ahead for months.
    return noted if noted <= time.monotonic() else float("-inf")
