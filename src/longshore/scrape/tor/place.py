"""Where a Tor keeps its data: a folder that no other Tor uses at the same time.

Many workers are given one folder and take a numbered place in it each. A place that has become free is taken again, and
with it what the Tor before knew of the network, so that a worker that is started anew is ready in seconds.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Self

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Place:
    """One numbered folder, ours until `release`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.lock = lock
        """The open lock file. A Tor that inherits it holds the place too, should it outlive us by a moment."""

    @classmethod
    def take(cls, folder: Path) -> Self:
        """The first place in this folder that is free. `OSError` where the folder cannot be written to."""
        for number in itertools.count(1):
            # Absolute, for it is told to processes that may be elsewhere.
            place = folder.absolute() / str(number)
            place.mkdir(parents=True, exist_ok=True)
            file = os.open(place / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(file)
            except (BlockingIOError, PermissionError):
                os.close(file)
            except BaseException:
                os.close(file)
                raise
            else:
                return cls(place, file)
        raise AssertionError("numbers do not end")

    def release(self) -> None:
        """Leave it to others. What is in it stays."""
        os.close(self.lock)
