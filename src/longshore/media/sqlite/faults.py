"""What SQLite says, in the words of `longshore.errors`: which file, what is wrong, what to do."""

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
"""Free bytes under which an I/O error is taken for a full disk: SQLite cannot tell for its shared-memory file."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the lock, so that the same transaction may succeed in a moment."""
    return _primary(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def translate(error: sqlite3.Error, path: Path) -> QueueError:
    """The error to raise for one of SQLite's."""
    match _primary(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return QueueUnavailableError(
                f"The queue '{path}' stayed locked by another process. Try again; if it goes on, "
                f"find who holds it (fuser '{path}') and end it."
            )
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return read_only(path)
        case sqlite3.SQLITE_NOTADB:
            return ForeignQueueError(
                f"'{path}' is not an SQLite file, so it is no queue. Name another file; this one was left as it is."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return ReadOnlyQueueError(
                f"The queue '{path}' cannot be opened ({error}). Check that you may write to the file and its folder."
            )
        case sqlite3.SQLITE_CORRUPT:
            return QueueError(
                f"The queue '{path}' is damaged ({error}). Put a backup in its place, or save what can be saved with: "
                f"sqlite3 '{path}' .recover"
            )
        case sqlite3.SQLITE_IOERR if _is_nearly_full(path):
            return _full(path)
        case sqlite3.SQLITE_IOERR:
            name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
            return QueueUnavailableError(
                f"The disk under the queue '{path}' does not answer as it should ({error}, {name}). "
                "Check the disk, and that it is a local one: SQLite does not work on network folders."
            )
        case _:
            return QueueError(f"The queue '{path}' refused an operation: {error}")


def read_only(path: Path) -> ReadOnlyQueueError:
    """The file or its folder cannot be written to."""
    return ReadOnlyQueueError(
        f"The queue '{path}' cannot be written to. Give yourself the right to write to the file and to its folder "
        "(SQLite keeps two more files beside it), or name another place."
    )


def _full(path: Path) -> QueueFullError:
    return QueueFullError(
        f"The disk under the queue '{path}' is full. Make room and go on; nothing that was accepted is lost."
    )


def _is_nearly_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _NEARLY_FULL
    except OSError:
        return False


def _primary(error: sqlite3.Error) -> int:
    # Errors that Python's binding raises by itself carry no code; the low byte is the code without its details.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
