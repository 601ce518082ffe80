"""One connection on a thread of its own, so that the event loop never waits for the disk; short transactions on it."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from longshore.errors import ForeignQueueError, QueueError, QueueUnavailableError
from longshore.media.sqlite import schema
from longshore.media.sqlite.faults import is_busy, read_only, translate

T = TypeVar("T")
_Write = tuple[Callable[[sqlite3.Connection], Any], Future[Any]]

PATIENCE = timedelta(seconds=30)
"""How long to try for the lock before the queue counts as unavailable. Ours is held for milliseconds."""

LOOK_EVERY = 0.014
"""Seconds between two looks at whether anyone wrote to the file, while someone waits for that."""

_COMMITTED_TOGETHER = 4
"""Calls that share a commit at most, so that the lock is not held for long."""

_OLDEST_SQLITE = (3, 35)

# FULL: what was answered survives a power cut, too. NORMAL would be faster by half and lose the last moments: jobs, and
# epochs that a worker on the far side of a network still holds. The limit gives back the room of a large transaction.
_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 67108864",
)


class Database:
    """The file, opened. Use it from one event loop of the process that opened it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._path = path
        self._connection = connection
        self._thread = thread
        self._process = os.getpid()
        # A handler may change the folder of its process.
        self._place = path.absolute()
        self._file = _identity(self._place)
        self._writes: deque[_Write] = deque()
        self._watcher: sqlite3.Connection | None = None
        self._watching = threading.Lock()
        self._watch_threads = ThreadPoolExecutor(thread_name_prefix="longshore-sqlite-watch")
        self._closed = False

    @classmethod
    async def open(cls, path: Path, prepare: Callable[[sqlite3.Connection], None]) -> Database:
        """Open the file, made and migrated if need be; `prepare` gives the connection its functions and scratch tables.

        Raises a `QueueError` that says why the file cannot be used.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="longshore-sqlite")
        try:
            connection = await asyncio.get_running_loop().run_in_executor(thread, _open, path, prepare)
        except BaseException:
            thread.shutdown()
            raise
        return cls(path, connection, thread)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one consistent view of the file."""
        self._check_usable()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, "BEGIN", work)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as the only writer: all of it is committed before the answer, or none of it.

        It may be run again if another process was in the way, so it must change nothing but the database.
        """
        self._check_usable()
        answer: Future[T] = Future()
        self._writes.append((work, answer))
        self._thread.submit(self._commit_together)
        return await asyncio.wrap_future(answer)

    def version(self) -> int:
        """A number that differs after any commit to the file, by anyone. Costs microseconds, on the calling thread."""
        with self._watching:
            if self._watcher is None:
                # A connection is blind to its own commits, hence a second one.
                self._watcher = _connect(self._place)
            try:
                (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
        return int(version)

    async def change(self, version: int) -> None:
        """Return soon after the version differs from the one given."""
        # A lock in place of an event: its wait is one system call and no Python.
        over = threading.Lock()
        over.acquire()
        try:
            await asyncio.get_running_loop().run_in_executor(self._watch_threads, self._watch, version, over)
        finally:
            over.release()

    def _watch(self, version: int, over: threading.Lock) -> None:
        # On a thread: half as dear as timers of the event loop. In real time, for others write when they will.
        while not over.acquire(timeout=LOOK_EVERY) and self.version() == version:
            pass

    async def close(self) -> None:
        """Finish what is under way and let go of the file. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        with self._watching:
            if self._watcher is not None:
                self._watcher.close()
        self._watch_threads.shutdown(wait=False)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    def _check_usable(self) -> None:
        if self._closed:
            raise QueueError(f"The queue '{self._path}' was closed. Open it again to use it.")
        if os.getpid() != self._process:
            raise QueueError(f"The queue '{self._path}' was opened before a fork. Open it in the new process.")

    def _check_there(self) -> None:
        # An open file that was removed can be read and written as before, and all of it would be lost.
        if _identity(self._place) != self._file:
            raise QueueError(
                f"The file of the queue '{self._path}' was removed or replaced while it was in use. Put it back, if it "
                "is to be kept, and start again."
            )

    def _transact(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_there()
        return _transact(self._connection, self._path, begin, work)

    def _commit_together(self) -> None:
        """Write what has come in meanwhile in one transaction: the wait for the disk is most of the cost of each."""
        group: list[_Write] = []
        while self._writes and len(group) < _COMMITTED_TOGETHER:
            work, answer = self._writes.popleft()
            if answer.set_running_or_notify_cancel():
                group.append((work, answer))
        if len(group) > 1 and self._written_as_one(group):
            return
        for work, answer in group:
            try:
                answer.set_result(self._transact("BEGIN IMMEDIATE", work))
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                answer.set_exception(error)

    def _written_as_one(self, group: list[_Write]) -> bool:
        """False if one of them went wrong: then nothing is written, and each is to be tried alone."""
        try:
            answers = self._transact("BEGIN IMMEDIATE", lambda db: [work(db) for work, _ in group])
        except QueueUnavailableError as error:
            for _, answer in group:
                answer.set_exception(error)
        except Exception:  # noqa: BLE001 - raised again for whoever caused it, when it is tried alone
            return False
        else:
            for (_, answer), value in zip(group, answers, strict=True):
                answer.set_result(value)
        return True


def _transact(db: sqlite3.Connection, path: Path, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
    def attempt() -> T:
        db.execute(begin)
        try:
            answer = work(db)
            db.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back by itself after a full disk and the like.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return answer

    return _patiently(attempt, path)


def _patiently(attempt: Callable[[], T], path: Path) -> T:
    """Try until nobody is in the way.

    SQLite's own waiting grows to 100 ms a nap and so favours whoever just had the lock; short naps of random length
    serve all alike. The machine's clock is meant here: it is a real lock of a real file that is waited for.
    """
    until = time.monotonic() + PATIENCE.total_seconds()
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise translate(error, path) from error
        time.sleep(random.uniform(0.0005, 0.0025))  # noqa: S311


def _open(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise QueueError(
            f"This Python comes with SQLite {sqlite3.sqlite_version}, and a queue needs {oldest} or newer. "
            "Use a newer Python."
        )
    _prepare_folder(path)
    try:
        db = _connect(path)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        # Looked at before anything is written, so that a file of something else stays as it is.
        version = _transact(db, path, "BEGIN", lambda db: schema.check(db, path))
        _patiently(lambda: _use_wal(db, path), path)
        for setting in _SETTINGS:
            db.execute(setting)
        if version < schema.VERSION:
            _transact(db, path, "BEGIN IMMEDIATE", lambda db: schema.migrate(db, path))
        prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells the file from another that takes its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _use_wal(db: sqlite3.Connection, path: Path) -> None:
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise QueueError(f"The folder of the queue '{path}' cannot hold a shared database. Use a local disk.")


def _prepare_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ForeignQueueError(
            f"The queue '{path}' cannot be made: '{error.filename}' is a file, not a folder. Name another place."
        ) from error
    except OSError as error:
        raise read_only(path) from error
    if path.is_dir():
        raise ForeignQueueError(f"'{path}' is a folder, and a sqlite queue is a file. Name a file in it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise read_only(path)


def _connect(path: Path) -> sqlite3.Connection:
    # No waiting inside SQLite (see `_patiently`), no transactions begun behind our back.
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
