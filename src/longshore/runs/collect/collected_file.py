"""What was collected of a run: a file that results are appended to, and beside it a bookmark that says which.

    RUN.jsonl         the results, a line each
    RUN.collected     a small database: how long the file is for certain, and the results that are in it

Lines are on disk before the bookmark speaks of them. Whoever dies in between leaves lines that the bookmark does not
know; the next one cuts them off and collects the same results again. So each is there once.
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
"""Bytes of a hash that name a result. Two alike among a billion are less likely than a broken disk."""

_encode = msgspec.json.Encoder().encode


class Collected:
    """The results of one run that are in a folder. One process at a time has it open."""

    def __init__(self, folder: Path, run: str) -> None:
        """Open it, made where it is not there. `UsageError` where it cannot be, or another process has it open."""
        check_run_id(run)
        self.file = folder / f"{run}.jsonl"
        self._bookmark = folder / f"{run}.collected"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                self._database = opened.enter_context(closing(self._opened()))
                noted: tuple[int, int] | None = self._database.execute("SELECT size, lines FROM file").fetchone()
                self._size, self.lines = noted or (0, 0)
                self._file = self._open_file()
                opened.callback(lambda: os.close(self._file))
                self._cut()
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
        """Append the results of those jobs that are not there yet, oldest first, for good. Returns how many."""
        named = {_name(job): job for job in jobs}
        new = [name for name in named if not self._knows(name)]
        if not new:
            return 0
        lines = b"".join(_encode(ResultLine.of(named[name])) + b"\n" for name in new)
        try:
            self._append(lines)
            with self._database:
                self._database.executemany("INSERT INTO collected VALUES (?)", [(name,) for name in new])
                self._note(self._size + len(lines), self.lines + len(new))
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"What was collected cannot be written to {self.file}: {error}. It is safe in the queue; make room and "
                "give the same command again."
            ) from error
        self._size += len(lines)
        self.lines += len(new)
        return len(new)

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._bookmark, timeout=0)
        try:
            # The lock is kept until the process is gone, however it ends.
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

    def _is_there(self) -> bool:
        """Whether the file that is open is the one under its name still."""
        try:
            return os.path.samestat(os.fstat(self._file), self.file.stat())
        except FileNotFoundError:
            return False

    def _open_anew(self) -> None:
        taken, self._file = self._file, self._open_file()
        os.close(taken)
        self._cut()

    def _cut(self) -> None:
        """Bring the file to the length that is certain. One that was taken away is begun anew."""
        there = os.fstat(self._file).st_size
        if there == 0 and self._size:
            self._size = 0
            with self._database:
                self._note(0, self.lines)
        elif there < self._size:
            raise UsageError(
                f"{self.file} is shorter than what was collected into it. Take it away whole, and the next results go "
                f"into a new one; or remove it and {self._bookmark.name}, and all are collected again."
            )
        os.ftruncate(self._file, self._size)

    def _append(self, lines: bytes) -> None:
        """Write them behind what is certain, into a new file where the last was taken away."""
        if not self._is_there():
            self._open_anew()
        self._write(lines)
        while not self._is_there():
            # Taken away as they were written: whoever has it may have read it before.
            os.ftruncate(self._file, self._size)
            self._open_anew()
            self._write(lines)

    def _write(self, lines: bytes) -> None:
        # The last attempt may have got stuck halfway.
        os.ftruncate(self._file, self._size)
        os.lseek(self._file, self._size, os.SEEK_SET)
        left = memoryview(lines)
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)

    def _note(self, size: int, lines: int) -> None:
        self._database.execute("DELETE FROM file")
        self._database.execute("INSERT INTO file VALUES (?, ?)", (size, lines))

    def _knows(self, name: bytes) -> bool:
        return self._database.execute("SELECT 1 FROM collected WHERE name = ?", (name,)).fetchone() is not None


def _name(job: Job) -> bytes:
    """What tells one result from all others of the run, in whichever queue it is.

    The instant is part of it: a job that was removed and submitted anew has a new result. It is cut to seconds, for
    not every medium keeps it to the same fraction.
    """
    name = "\0".join((job.kind, job.key, str(job.epoch), str(int(job.settled_at or 0))))
    return hashlib.sha256(name.encode()).digest()[:_NAME]
