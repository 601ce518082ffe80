"""The collected results of a run: a file that results are appended to, and an index of the results in it.

    RUN.jsonl         the results, one per line
    RUN.collected     a small database: the committed length of the file, and the results that are in it

Lines are on disk before they are added to the index. If a process dies in between, the file has lines that the index
does not know; the next process truncates them and collects the same results again. So each result is there once.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from longshore.errors import UsageError
from longshore.job import Job
from longshore.runs.export.rows import ResultLine
from longshore.runs.submit.submission import check_run_id
from longshore.system.descriptors import open_binary

_SCHEMA = """
CREATE TABLE IF NOT EXISTS collected (name BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS file (size INTEGER NOT NULL, lines INTEGER NOT NULL);
"""
_NAME = 16
"""Bytes of the hash that identifies a result. A collision among a billion is less likely than a broken disk."""

_encode = msgspec.json.Encoder().encode


class CollectedFile:
    """The file with the collected results of one run. Only one process at a time can open it."""

    def __init__(self, folder: Path, run: str) -> None:
        """Open or create the file. Raise `UsageError` if that fails, or if another process has it open."""
        check_run_id(run)
        self.file = folder / f"{run}.jsonl"
        self._index = folder / f"{run}.collected"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                self._database = opened.enter_context(closing(self._open_index()))
                stored: tuple[int, int] | None = self._database.execute("SELECT size, lines FROM file").fetchone()
                self._size, self.lines = stored or (0, 0)
                self._file = self._open_file()
                opened.callback(lambda: os.close(self._file))
                self._truncate()
                self._open = opened.pop_all()
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"{folder} cannot be collected into: {error}. Make it writable, or name another with --into."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, jobs: Sequence[Job]) -> int:
        """Append the results of those jobs that are not in the file yet, durably. Return how many."""
        named = {_name(job): job for job in jobs}
        new = [name for name in named if not self._has(name)]
        if not new:
            return 0
        lines = b"".join(_encode(ResultLine.of(named[name])) + b"\n" for name in new)
        try:
            self._append(lines)
            with self._database:
                self._database.executemany("INSERT INTO collected VALUES (?)", [(name,) for name in new])
                self._store_size(self._size + len(lines), self.lines + len(new))
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"Results cannot be written to {self.file}: {error}. They are safe in the queue: free some space and "
                "give the same command again."
            ) from error
        self._size += len(lines)
        self.lines += len(new)
        return len(new)

    def _open_index(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._index, timeout=0)
        try:
            # The lock is held until the process ends, however it ends.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN EXCLUSIVE")
            for statement in _SCHEMA.split(";\n"):
                database.execute(statement)
            database.commit()
        except sqlite3.OperationalError as error:
            database.close()
            if "locked" in str(error):
                raise UsageError(
                    f"Another `longshore collect` writes {self.file} already. Stop it first, or name another folder "
                    "with --into."
                ) from error
            raise
        return database

    def _open_file(self) -> int:
        return open_binary(self.file, os.O_RDWR | os.O_CREAT, 0o644)

    def _is_in_place(self) -> bool:
        """Return whether the open file still has its name."""
        try:
            return os.path.samestat(os.fstat(self._file), self.file.stat())
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        taken, self._file = self._file, self._open_file()
        os.close(taken)
        self._truncate()

    def _truncate(self) -> None:
        """Truncate the file to its committed length. If it was moved away, start a new one."""
        there = os.fstat(self._file).st_size
        if there == 0 and self._size:
            self._size = 0
            with self._database:
                self._store_size(0, self.lines)
        elif there < self._size:
            raise UsageError(
                f"{self.file} is shorter than it was after the last collect. Move it away, and the next results go "
                f"into a new file; or remove it and {self._index.name}, and all results are collected again."
            )
        os.ftruncate(self._file, self._size)

    def _append(self, lines: bytes) -> None:
        """Write the lines after the committed length; into a new file if the last one was moved away."""
        if not self._is_in_place():
            self._reopen()
        self._write(lines)
        while not self._is_in_place():
            # The file was moved away during the write, and may have been read before the lines were in it.
            os.ftruncate(self._file, self._size)
            self._reopen()
            self._write(lines)

    def _write(self, lines: bytes) -> None:
        # An earlier attempt may have written only a part.
        os.ftruncate(self._file, self._size)
        os.lseek(self._file, self._size, os.SEEK_SET)
        left = memoryview(lines)
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)

    def _store_size(self, size: int, lines: int) -> None:
        self._database.execute("DELETE FROM file")
        self._database.execute("INSERT INTO file VALUES (?, ?)", (size, lines))

    def _has(self, name: bytes) -> bool:
        return self._database.execute("SELECT 1 FROM collected WHERE name = ?", (name,)).fetchone() is not None


def _name(job: Job) -> bytes:
    """Return a hash that identifies a result among all results of the run, on every medium.

    The time of settling is part of it: a job that was removed and submitted again has a new result. It is truncated to
    seconds, because media store different fractions.
    """
    name = "\0".join((job.kind, job.key, str(job.epoch), str(int(job.settled_at or 0))))
    return hashlib.sha256(name.encode()).digest()[:_NAME]
