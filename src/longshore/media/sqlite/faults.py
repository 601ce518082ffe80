"""Translate SQLite's errors to those of `longshore.errors`: which file, what is wrong, what to do."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from longshore.errors import (
    ForeignQueueError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
)

_NEARLY_FULL = 1 << 20
"""An I/O error with fewer free bytes counts as a full disk: SQLite reports no such error for its shared-memory file."""


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process holds the lock, so that the same transaction may soon succeed."""
    return _primary(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def translate(error: sqlite3.Error, path: Path) -> QueueError:
    """Return the error to raise for one of SQLite's."""
    match _primary(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return QueueUnavailableError(
                f"The queue '{path}' stayed locked by another process. Try again; if it stays locked, "
                f"find the process that holds it (fuser '{path}') and end it."
            )
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return read_only(path)
        case sqlite3.SQLITE_NOTADB:
            return ForeignQueueError(
                f"'{path}' is not an SQLite file, so it is not a queue. Name another file; this one was not changed."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return ReadOnlyQueueError(
                f"The queue '{path}' cannot be opened ({error}). Check that you may write to the file and its folder."
            )
        case sqlite3.SQLITE_CORRUPT:
            return QueueError(
                f"The queue '{path}' is damaged ({error}). Restore a backup, or recover the readable data with: "
                f"sqlite3 '{path}' .recover"
            )
        case sqlite3.SQLITE_IOERR if _is_nearly_full(path):
            return _full(path)
        case sqlite3.SQLITE_IOERR:
            name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
            return QueueUnavailableError(
                f"The disk under the queue '{path}' reported an error ({error}, {name}). "
                "Check the disk, and that it is a local one: SQLite does not work on network folders."
            )
        case _:
            return QueueError(f"The queue '{path}' refused an operation: {error}")


def read_only(path: Path) -> ReadOnlyQueueError:
    """Return the error for a file or folder without write permission."""
    return ReadOnlyQueueError(
        f"The queue '{path}' cannot be written to. Give yourself write permission for the file and its folder "
        "(SQLite keeps two more files beside it), or name another path."
    )


def _full(path: Path) -> QueueFullError:
    return QueueFullError(
        f"The disk under the queue '{path}' is full. Free some space and go on; nothing that was accepted is lost."
    )


def _is_nearly_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _NEARLY_FULL
    except OSError:
        return False


def _primary(error: sqlite3.Error) -> int:
    # Errors that Python's binding raises itself have no code. The low byte is the primary code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
