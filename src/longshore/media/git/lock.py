"""A lock between the processes of one machine. The system lets go of it when its holder dies, however it dies."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> None:
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                time.sleep(0.01)

    def _leave(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)

    def _leave(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)


class FileLock:
    """Held inside a `with` block; others wait. Never held twice by one holder."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        _take(self._file)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _leave(self._file)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
