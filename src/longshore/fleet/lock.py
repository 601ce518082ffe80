"""A lock on a file that one process holds as long as it lives. The system lets go of it, however the process ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_PATIENCE = 0.5
"""Seconds: whoever only looks whether it is held holds it for an instant."""
_PAUSE = 0.01

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, *, shared: bool) -> None:  # noqa: ARG001  there is one kind only
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: int, *, shared: bool) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


_HELD = (BlockingIOError, PermissionError)
"""What the system says of a lock that somebody has."""


class Lock:
    """The lock on one file. The file stays: if it were removed, two could hold a lock on files of one name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> bool:
        """Hold it from now on; False where somebody does. `OSError` where there can be no lock."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        until = time.monotonic() + _PATIENCE
        try:
            while True:
                try:
                    _lock(file, shared=False)
                except _HELD:
                    if time.monotonic() >= until:
                        return False
                    time.sleep(_PAUSE)
                else:
                    self._file, file = file, -1
                    return True
        finally:
            if file != -1:
                os.close(file)

    def release(self) -> None:
        """Let go of it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def held(self) -> bool:
        """Whether somebody holds it, be it this process."""
        try:
            file = os.open(self.path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            _lock(file, shared=True)
        except _HELD:
            return True
        finally:
            os.close(file)
        return False
