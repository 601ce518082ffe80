"""Read the ends of log files, and what is added to them, also while they are rotated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from longshore.masking import mask_text

PLACES = ("logs/*.log", ".longshore/logs/*.log", ".longshore/logs/*/*.log")
"""The logs of a folder: of workers and fleets, and of `longshore run`."""
_BYTES = 256 * 1024
_LONGEST_LINE = 64 * 1024


def log_files(folder: Path, wanted: str | None = None) -> list[Path]:
    """Return the log files of a folder, the one written last at the end.

    `wanted` names one: `fleet`, `proxies`, or a worker by its number or name.
    """
    found = [path for pattern in PLACES for path in folder.glob(pattern) if path.is_file()]
    if wanted is not None:
        stem = wanted.strip().replace(" ", "_")
        found = [path for path in found if path.stem in (stem, f"worker_{stem}")]
    return sorted(found, key=_written_at)


def last_lines(path: Path, number: int) -> list[str]:
    """Return the last lines of a file, secrets masked. Raises `OSError` if it cannot be read."""
    with path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    # The first line of a piece may have lost its beginning, and with it the mark of a secret.
    whole = lines[1:] if size > _BYTES else lines
    return [mask_text(line) for line in whole[-number:]] if number else []


class LogFollower:
    """Reads what is added to a log file. `new_lines` is called again and again."""

    def __init__(self, path: Path, *, from_start: bool = False) -> None:
        """Begin at the present end of the file, or at its start."""
        self.path = path
        self._partial = b""
        self._file: int | None = None
        self._open(at_end=not from_start)

    def new_lines(self) -> Iterator[str]:
        """Yield the lines that were added since the last call, secrets masked."""
        yield from self._rest()
        if self._is_replaced():
            # Lines that were written between the last read and the rename.
            yield from self._rest()
            self._open(at_end=False)
            yield from self._rest()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, *, at_end: bool) -> None:
        self.close()
        try:
            self._file = os.open(self.path, os.O_RDONLY)
        except OSError:
            return  # it is being rotated: the next call finds it
        if at_end:
            os.lseek(self._file, 0, os.SEEK_END)

    def _is_replaced(self) -> bool:
        try:
            found = self.path.stat()
        except OSError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file)
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def _rest(self) -> Iterator[str]:
        while self._file is not None and (data := os.read(self._file, _BYTES)):
            *lines, partial = (self._partial + data).split(b"\n")
            self._partial = partial[-_LONGEST_LINE:]
            for line in lines:
                yield mask_text(line.decode(errors="replace"))


def followers(folder: Path, wanted: str | None, known: Sequence[LogFollower]) -> list[LogFollower]:
    """Return a follower, from the start, for each log file that has appeared since and has none in `known`."""
    paths = {each.path for each in known}
    return [LogFollower(path, from_start=True) for path in log_files(folder, wanted) if path not in paths]


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
