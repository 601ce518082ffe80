"""Where a Tor keeps its data: a folder that no other Tor uses at the same time.

Many workers are given one folder and take a numbered place in it each. A place that has become free is taken again, and
with it what the Tor before knew of the network, so that a worker that is started anew is ready in seconds.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Self

from longshore.system.file_lock import FileLock


class TorDataDir:
    """One numbered folder, ours until `release`."""

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self.folder = folder
        self._lock = lock

    @classmethod
    def take(cls, folder: Path) -> Self:
        """The first place in this folder that is free. `OSError` where the folder cannot be written to."""
        for number in itertools.count(1):
            # Absolute, for it is told to processes that may be elsewhere.
            place = folder.absolute() / str(number)
            place.mkdir(parents=True, exist_ok=True)
            lock = FileLock(place / "lock", private=True)
            if lock.acquire(timeout=0):
                return cls(place, lock)
        raise AssertionError("numbers do not end")

    @property
    def lock(self) -> int:
        """The open lock file. A Tor that inherits it holds the place too, should it outlive us by a moment."""
        return self._lock.fileno()

    def release(self) -> None:
        """Leave it to others. What is in it stays."""
        self._lock.release()
