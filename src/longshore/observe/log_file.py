"""Log files that do not grow without end: at a size, a file gets the suffix `.1`, and a new one begins.

One process writes a file. It renames the file and opens a new one, so no line is lost or written twice.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from longshore.masking import mask_text
from longshore.system.file_lock import FileLock
from longshore.system.printable import printable
from longshore.system.private_files import make_private
from longshore.url import mask_url

MOST_BYTES = 10 * 2**20
"""The size at which a log file is rotated."""
KEPT = 3
"""How many earlier files are kept: `.1` is the newest."""
_UNSAFE = re.compile(r"[^\w.-]")
_STDERR = 2


class LogFile:
    """A log file, readable only by its owner. `write` never raises: if the disk is full, lines are lost."""

    def __init__(self, path: Path, *, is_stderr: bool = False) -> None:
        """Open the file. With `is_stderr`, everything else that this process writes to standard error goes there too.

        Raises `OSError` if it cannot be opened.
        """
        self.path = path
        self.is_stderr = is_stderr
        self._lock: FileLock | None = None
        self.complain: Callable[[OSError], None] | None = None
        """Called once if a line could not be written."""
        make_private(path.parent)
        self._open()

    def write(self, text: str) -> None:
        """Add lines; `text` ends with a line break."""
        data = text.encode(errors="replace")
        try:
            if self._size >= MOST_BYTES:
                self._rotate()
            self._size += os.write(self._file, data)
        except OSError as error:
            if self.complain is not None:
                complain, self.complain = self.complain, None
                complain(error)

    def begin(self, arguments: Sequence[str]) -> None:
        """Add a line with the time and the command of this process, secrets masked."""
        now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        self.write(f"{now} Command: {command_line(arguments)} (process {os.getpid()})\n")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._file)
        if self._lock is not None:
            self._lock.release()

    def hold(self, lock: FileLock) -> None:
        """Release `lock` when this is closed, or when the process ends."""
        self._lock = lock

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size
        if self.is_stderr:
            sys.stderr.flush()
            os.dup2(self._file, _STDERR)

    def _rotate(self) -> None:
        self._size = 0  # if the file cannot be renamed, the next try comes after as many bytes
        os.close(self._file)
        try:
            for number in range(KEPT - 1, 0, -1):
                with suppress(FileNotFoundError):
                    _numbered(self.path, number).replace(_numbered(self.path, number + 1))
            with suppress(OSError):  # Windows renames no file that is open elsewhere
                self.path.replace(_numbered(self.path, 1))
        finally:
            self._open()


def own_log_file(folder: Path, name: str | None) -> LogFile:
    """Open the log of a worker that was started alone. Raises `OSError`.

    `name` is the one that its user gave it. If another worker writes to the file of this name, the name gets a number,
    the lowest that is free: so there are no more files than workers that ran at once.
    """
    make_private(folder)
    stem, number = f"worker_{_UNSAFE.sub('_', name or 'single')[:80]}", 1
    while True:
        file = stem if number == 1 else f"{stem}_{number}"
        lock = FileLock(folder / f".{file}.lock", private=True)
        if lock.acquire(0):
            break
        number += 1
    log = LogFile(folder / f"{file}.log")
    log.hold(lock)
    return log


def command_line(arguments: Sequence[str]) -> str:
    """Return a command of Longshore as it can be typed again, secrets masked."""
    return printable(mask_text(shlex.join(["longshore", *map(mask_url, arguments)])))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
