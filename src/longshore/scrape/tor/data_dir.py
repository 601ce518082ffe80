"""The data folder of a Tor, which no other Tor uses at the same time.

All workers of a machine share one folder; each locks a numbered subfolder of it. A free subfolder is reused with the
network data in it, so that the Tor of a restarted worker is ready in seconds.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Self

from longshore.system.file_lock import FileLock
from longshore.system.private_files import make_private


class TorDataDir:
    """One numbered subfolder, locked for us until `release`."""

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self.folder = folder
        self._lock = lock

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Lock and return the first free subfolder. Raise `OSError` if `folder` cannot be written to."""
        for number in itertools.count(1):
            # Absolute, because processes with another working directory get the path.
            subfolder = folder.absolute() / str(number)
            make_private(subfolder)
            lock = FileLock(subfolder / "lock", private=True)
            if lock.acquire(timeout=0):
                return cls(subfolder, lock)
        raise AssertionError("numbers do not end")

    @property
    def lock(self) -> int:
        """The descriptor of the lock file. Tor inherits it, so the folder stays locked if Tor ends after us."""
        return self._lock.fileno()

    def release(self) -> None:
        """Unlock the subfolder. Its contents stay."""
        self._lock.release()
