"""A lock between processes of one machine. The system releases it when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PROBE_SECONDS = 0.5
"""Seconds to try for a lock that others check with `is_held`: a check takes the lock for an instant."""
_PAUSE = 0.01

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, *, shared: bool = False) -> None:  # noqa: ARG001  Windows has no shared locks
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock(file: int) -> None:
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

    def _wait(file: int) -> None:
        while not _try(file):
            time.sleep(_PAUSE)

else:
    import fcntl

    def _lock(file: int, *, shared: bool = False) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

    def _wait(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


LOCKS_OPEN_FILES = sys.platform != "win32"
"""Whether `hold_open_file` locks."""


def hold_open_file(file: int, *, wait: bool) -> bool:
    """Lock an open file until it is closed; without `wait`, return False if another process holds it.

    Windows has no lock that leaves readers alone: there it locks nothing, and returns `wait`.
    """
    if sys.platform == "win32":
        return wait
    else:
        if not wait:
            return _try(file)
        _wait(file)
        return True


def _try(file: int, *, shared: bool = False) -> bool:
    try:
        _lock(file, shared=shared)
    except (BlockingIOError, PermissionError):
        # POSIX raises the first for a lock that another holds, Windows the second.
        return False
    return True


def _take(file: int, timeout: float | None) -> bool:
    if timeout is None:
        _wait(file)
        return True
    until = time.monotonic() + timeout
    while not _try(file):
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)
    return True


class FileLock:
    """The lock on one file, held in a `with` block or from `acquire` to `release`. A holder must not take it twice.

    The file stays: if it were removed, two processes could hold locks on two files of one name.
    """

    def __init__(self, path: Path, *, private: bool = False) -> None:
        """Only its owner can read a new `private` lock file."""
        self.path = path
        self._mode = 0o600 if private else 0o644
        self._file: int | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        """Take the lock; return False if another holds it for all of `timeout` seconds. None waits without limit.

        Raises `OSError` if the file cannot be opened.
        """
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, self._mode)
        try:
            taken = _take(self._file, timeout)
        except BaseException:
            self.release()
            raise
        if not taken:
            self.release()
        return taken

    def release(self) -> None:
        """Close the file. The lock is free then, unless a child process has inherited the open file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def fileno(self) -> int:
        """Return the open file, for a child process that must hold the lock as well."""
        if self._file is None:
            raise ValueError(f"{self.path} is not open")
        return self._file

    def is_held(self) -> bool:
        """Return whether any process holds the lock, this one included."""
        try:
            file = os.open(self.path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _try(file, shared=True)
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The file stays open: the next block needs no path, and forked processes keep nothing locked.
        _unlock(self.fileno())
