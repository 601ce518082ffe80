"""A small connection pool for one database: opens connections on demand and replaces broken ones.

No call relies on session state: no temporary table, no session lock, no required setting. So a connection may go
through PgBouncer in transaction mode, and all connections are interchangeable. Only the speed differs: on a direct
connection, each statement is prepared once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg

from longshore.errors import LongshoreError, QueueUnavailableError
from longshore.media.postgres.faults import DRIVER_ERRORS, fault, timed_out, was_undone
from longshore.media.postgres.location import DatabaseLocation

SIZE = 4
"""Maximum number of connections: claim, settle and submit may run at the same time, and one is spare."""
RECONNECT_TIMEOUT = 5.0
"""Seconds to wait for a lost or silent database before the caller gets an error; the worker retries on its own."""
CALL_TIMEOUT = 40.0
"""Seconds to wait for the answer of a call; longer than the server's own limit, which ends the call more cleanly."""

# Set on direct connections; behind a pooler, set them on the role or the database instead.
_SESSION = """
set statement_timeout = '30s';
set idle_in_transaction_session_timeout = '60s';
set default_transaction_isolation = 'read committed';
set jit = off
"""

Row = asyncpg.Record
T = TypeVar("T")


class Session:
    """One connection and its prepared statements."""

    def __init__(self, connection: asyncpg.Connection[Row]) -> None:
        self.connection = connection
        self._prepared: dict[str, asyncpg.prepared_stmt.PreparedStatement[Row]] | None = None

    @classmethod
    async def open(cls, location: DatabaseLocation) -> Session:
        """Connect and prepare for calls, within `RECONNECT_TIMEOUT` in all. Raises the driver's errors."""
        async with asyncio.timeout(RECONNECT_TIMEOUT):
            # The driver's own cache is off: it would name statements on any server connection that a pooler picks.
            connection = await asyncpg.connect(location.dsn, statement_cache_size=0, command_timeout=None)
            return await cls._prepare(connection)

    @classmethod
    async def _prepare(cls, connection: asyncpg.Connection[Row]) -> Session:
        session = cls(connection)
        with terminated_on_failure(connection):
            # A pooler reports a process id that is not the server's.
            if await connection.fetchval("select pg_backend_pid()") == connection.get_server_pid():
                await connection.execute(_SESSION)
                session._prepared = {}
            else:
                await _learn_types(connection)
        return session

    @property
    def pooled(self) -> bool:
        """Whether a pooler is in between: then the server session is shared, and LISTEN does not work."""
        return self._prepared is None

    @property
    def lost(self) -> bool:
        return self.connection.is_closed()

    async def fetch(self, statement: str, arguments: Sequence[Any]) -> list[Row]:
        """Run one statement in its own transaction."""
        if self._prepared is None:
            return await self.connection.fetch(statement, *arguments, timeout=CALL_TIMEOUT)
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = await self.connection.prepare(statement, timeout=CALL_TIMEOUT)
        return await prepared.fetch(*arguments, timeout=CALL_TIMEOUT)

    async def close(self) -> None:
        """Close the connection; terminate it if the server does not answer."""
        try:
            await self.connection.close(timeout=2)
        except DRIVER_ERRORS:
            self.connection.terminate()


class Connections:
    """Up to `SIZE` sessions, shared by the calls of one queue."""

    def __init__(self, location: DatabaseLocation) -> None:
        self.location = location
        self._idle: list[Session] = []
        self._free = asyncio.Semaphore(SIZE)
        self._closed = False

    async def fetch(self, statement: str, *arguments: Any, repeatable: bool = False) -> list[Row]:
        """Run one statement in its own transaction and return its rows. `run` documents retries and errors."""
        return await self.run(lambda session: session.fetch(statement, arguments), repeatable=repeatable)

    async def run(self, call: Callable[[Session], Awaitable[T]], *, repeatable: bool = False) -> T:
        """Run `call`, which makes one transaction, on a session of the pool.

        It is retried for up to `RECONNECT_TIMEOUT` seconds if it certainly had no effect (no connection, or the server
        rolled it back to resolve a deadlock) or if repeating is harmless (`repeatable`). If the connection is lost in
        the middle of any other call, it raises `QueueUnavailableError` at once: the call may or may not have
        happened, and only the caller can decide what that means.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + RECONNECT_TIMEOUT
        wait = 0.05
        while True:
            try:
                return await self._try(call)
            except _UnavailableError as unavailable:
                if not (unavailable.untouched or repeatable) or loop.time() + wait > until or self._closed:
                    raise unavailable.error from unavailable.error.__cause__
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads a fleet's reconnections
            wait = min(wait * 2, 1.0)

    def adopt(self, session: Session) -> None:
        """Add a session that is already open."""
        self._idle.append(session)

    async def _try(self, call: Callable[[Session], Awaitable[T]]) -> T:
        async with self._free:
            session = await self._session()
            reusable = False
            try:
                answer = await call(session)
                reusable = True
                return answer
            except DRIVER_ERRORS as error:
                # The server answered, so the session is usable, unless the server is closing the connection.
                code = error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else None
                reusable = code is not None and not code.startswith(("08", "57P"))
                raise self._translated(error, untouched=was_undone(error)) from error
            finally:
                # After a cancelled call the connection is in an unknown state.
                if reusable and not session.lost and not self._closed:
                    self._idle.append(session)
                else:
                    session.connection.terminate()

    async def _session(self) -> Session:
        while self._idle:
            session = self._idle.pop()
            if not session.lost:
                return session
        try:
            return await Session.open(self.location)
        except DRIVER_ERRORS as error:
            raise self._translated(error, untouched=True) from error

    def _translated(self, error: Exception, *, untouched: bool) -> Exception:
        if isinstance(error, TimeoutError) and error.errno is None and not untouched:
            known: LongshoreError | None = timed_out(self.location, f"no answer within {CALL_TIMEOUT:.0f} s")
        else:
            known = fault(error, self.location)
        if known is None:
            return error
        known.__cause__ = error
        return _UnavailableError(known, untouched=untouched) if isinstance(known, QueueUnavailableError) else known

    async def close(self) -> None:
        """Close the idle sessions; a session in use is closed when its call ends."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()


async def _learn_types(connection: asyncpg.Connection[Row]) -> None:
    """Let the driver look up the types it will need, in one transaction with JIT compilation off.

    The driver does this once per connection. Behind a pooler, its own statement that turns JIT off may reach another
    server connection than the lookup, which then takes seconds.
    """
    async with connection.transaction():
        await connection.execute("set local jit = off")
        await connection.fetch(
            "select $1::int[], $2::bigint[], $3::float8[], $4::bool[], $5::json[]", [], [], [], [], []
        )


@contextmanager
def terminated_on_failure(connection: asyncpg.Connection[Row]) -> Generator[None]:
    """Terminate the connection if the block raises, also if it is cancelled: until then it has no other owner.

    A connection is terminated and not closed, because closing waits for a server that may not answer.
    """
    try:
        yield
    except BaseException:
        connection.terminate()
        raise


async def open_session(location: DatabaseLocation) -> Session:
    """Connect now, without retries. Raises the Longshore error for any failure."""
    try:
        return await Session.open(location)
    except DRIVER_ERRORS as error:
        raise fault(error, location) or error from error


class _UnavailableError(Exception):
    """An error that may pass, and whether the call certainly had no effect. Used only in this module."""

    def __init__(self, error: QueueUnavailableError, *, untouched: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.untouched = untouched
