"""One connection, used by its own thread so that the event loop never waits for the disk. Transactions are short."""

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
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from longshore.errors import ForeignQueueError, MissingQueueError, QueueError, QueueUnavailableError
from longshore.media.sqlite import schema
from longshore.media.sqlite.faults import is_busy, read_only, translate
from longshore.system.private_files import make_private, touch_private

T = TypeVar("T")
_Write = tuple[Callable[[sqlite3.Connection], Any], Future[Any]]

LOCK_TIMEOUT = timedelta(seconds=30)
"""How long to try for the lock before the queue counts as unavailable. Longshore holds it for milliseconds."""

POLL_SECONDS = 0.014
"""Seconds between two checks for a commit by another connection, while a caller waits for one."""

_MAX_GROUP = 4
"""Maximum number of calls that share a commit, so that the lock is not held for long."""

_OLDEST_SQLITE = (3, 35)

# FULL: every acknowledged commit also survives a power cut. NORMAL would be faster by half, but could lose the last
# commits: jobs, and epochs that a worker across the network still holds. The size limit truncates the journal after a
# large transaction.
_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 67108864",
)


class Database:
    """An open database file. Use it from one event loop of the process that opened it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, thread: ThreadPoolExecutor, uuid: str) -> None:
        self._path = path
        self.uuid = uuid
        """The uuid of the queue in the file. It never changes, and a file that is replaced is noticed."""
        self._connection = connection
        self._thread = thread
        self._process = os.getpid()
        # Absolute, because a handler may change the working directory of its process.
        self._absolute_path = path.absolute()
        self._file = _identity(self._absolute_path)
        self._writes: deque[_Write] = deque()
        self._watcher: sqlite3.Connection | None = None
        self._watching = threading.Lock()
        self._watch_threads = ThreadPoolExecutor(thread_name_prefix="longshore-sqlite-watch")
        self._closed = False

    @classmethod
    async def open(cls, path: Path, prepare: Callable[[sqlite3.Connection], None]) -> Database:
        """Open the file; create and migrate it if needed. `prepare` adds functions and temporary tables.

        Raises a `QueueError` with the reason if the file cannot be used.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="longshore-sqlite")
        try:
            connection, uuid = await asyncio.get_running_loop().run_in_executor(thread, _open, path, prepare)
        except BaseException:
            thread.shutdown()
            raise
        return cls(path, connection, thread, uuid)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one consistent snapshot of the file."""
        self._check_usable()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, "BEGIN", work)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as the only writer: when this returns, all of it is committed; when it raises, none of it.

        `work` may run again if another process held the lock, so it must change nothing but the database.
        """
        self._check_usable()
        answer: Future[T] = Future()
        self._writes.append((work, answer))
        self._thread.submit(self._commit_together)
        return await asyncio.wrap_future(answer)

    def version(self) -> int:
        """Return a number that differs after any commit by any connection. Costs microseconds on the calling thread."""
        with self._watching:
            if self._watcher is None:
                # `data_version` ignores commits of its own connection, so a second connection reads it.
                self._watcher = _connect(self._absolute_path)
            try:
                (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
        return int(version)

    async def change(self, version: int) -> None:
        """Return soon after the version differs from `version`."""
        # A lock instead of an event: its wait is one system call and runs no Python code.
        over = threading.Lock()
        over.acquire()
        try:
            await asyncio.get_running_loop().run_in_executor(self._watch_threads, self._watch, version, over)
        finally:
            over.release()

    def _watch(self, version: int, over: threading.Lock) -> None:
        # On a thread, because this costs half as much as event loop timers. In real time, not by the queue's clock,
        # because other processes write in real time.
        while not over.acquire(timeout=POLL_SECONDS) and self.version() == version:
            pass

    async def close(self) -> None:
        """Finish the running transaction and close the file. A second call does nothing."""
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

    def _check_not_replaced(self) -> None:
        # A removed file that is still open accepts reads and writes, and all of them would be lost.
        if (found := _identity(self._absolute_path)) != self._file:
            raise (QueueError if found else MissingQueueError)(
                f"The file of the queue '{self._path}' was removed or replaced while it was in use. Put it back if you "
                "want to keep it, and start again."
            )

    def _transact(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_not_replaced()
        return _transact(self._connection, self._path, begin, work)

    def _commit_together(self) -> None:
        """Write the calls that are queued in one transaction: most of a commit's cost is the wait for the disk."""
        group: list[_Write] = []
        while self._writes and len(group) < _MAX_GROUP:
            work, answer = self._writes.popleft()
            if answer.set_running_or_notify_cancel():
                group.append((work, answer))
        if len(group) > 1 and self._commit_as_one(group):
            return
        for work, answer in group:
            try:
                answer.set_result(self._transact("BEGIN IMMEDIATE", work))
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                answer.set_exception(error)

    def _commit_as_one(self, group: list[_Write]) -> bool:
        """Return False if one call failed: then nothing was written, and the caller must try each alone."""
        try:
            answers = self._transact("BEGIN IMMEDIATE", lambda db: [work(db) for work, _ in group])
        except QueueUnavailableError as error:
            for _, answer in group:
                answer.set_exception(error)
        except Exception:  # noqa: BLE001 - raised again for the call that caused it, when it is tried alone
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
            # After some errors, such as a full disk, SQLite has already rolled back.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return answer

    return _retry_while_busy(attempt, path)


def _retry_while_busy(attempt: Callable[[], T], path: Path) -> T:
    """Run `attempt` until no other process holds the lock.

    SQLite's own busy timeout sleeps for up to 100 ms at a time, which favours the process that just had the lock; short
    sleeps of random length are fair. The machine's clock is used, not the queue's: the lock of a real file is awaited.
    """
    until = time.monotonic() + LOCK_TIMEOUT.total_seconds()
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise translate(error, path) from error
        time.sleep(random.uniform(0.0005, 0.0025))  # noqa: S311


def _open(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> tuple[sqlite3.Connection, str]:
    """Return the connection, and the uuid of the queue in the file."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise QueueError(
            f"This Python uses SQLite {sqlite3.sqlite_version}, and a queue needs {oldest} or newer. "
            "Use a newer Python."
        )
    _prepare_folder(path)
    # SQLite gives its other files the permissions of this one, and reports better why it cannot be made.
    with suppress(OSError):
        touch_private(path)
    try:
        db = _connect(path)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        # Check before writing anything, so that a file of another program stays unchanged.
        version = _transact(db, path, "BEGIN", lambda db: schema.check(db, path))
        _retry_while_busy(lambda: _use_wal(db, path), path)
        for setting in _SETTINGS:
            db.execute(setting)
        if version < schema.VERSION:
            _transact(db, path, "BEGIN IMMEDIATE", lambda db: schema.migrate(db, path))
        prepare(db)
        uuid = _transact(db, path, "BEGIN", schema.uuid_of)
    except BaseException:
        db.close()
        raise
    return db, uuid


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes the file from another one with the same name; None if there is no file."""
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
        make_private(path.parent)
    except (FileExistsError, NotADirectoryError) as error:
        raise ForeignQueueError(
            f"The queue '{path}' cannot be created: '{error.filename}' is a file, not a folder. Name another path."
        ) from error
    except OSError as error:
        raise read_only(path) from error
    if path.is_dir():
        raise ForeignQueueError(f"'{path}' is a folder, and a sqlite queue is a file. Name a file in it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise read_only(path)


def _connect(path: Path) -> sqlite3.Connection:
    # No wait inside SQLite (see `_retry_while_busy`), and no implicit transactions.
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
