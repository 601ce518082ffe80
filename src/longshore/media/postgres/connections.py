"""A few connections to one database, made when needed, thrown away when broken, and made again.

Nothing a call relies on lives in a session: no temporary table, no session lock, no setting that must have been made.
So a connection may go through PgBouncer in transaction mode, and any connection is as good as any other. What differs
is only speed: where nothing stands between us and the server, statements are prepared once for each connection.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from longshore.errors import QueueUnavailableError
from longshore.media.postgres.faults import DRIVER_ERRORS, fault, was_undone
from longshore.media.postgres.location import DatabaseLocation

SIZE = 4
"""Claim, settle and submit may be under way at once, and one to spare."""
PATIENCE = 5.0
"""How long a database that is lost or silent is waited for before the caller is told (seconds); the worker has its own
patience."""
CALL_TIMEOUT = 40.0
"""When a call without an answer is given up (seconds); past the server's own limit, which ends it more cleanly."""

# Made on a connection of our own; through a pooler the role or the database may set them instead.
_SESSION = """
set statement_timeout = '30s';
set idle_in_transaction_session_timeout = '60s';
set default_transaction_isolation = 'read committed';
set jit = off
"""

Row = asyncpg.Record
T = TypeVar("T")


class Session:
    """One connection, and what is prepared on it."""

    def __init__(self, connection: asyncpg.Connection[Row]) -> None:
        self.connection = connection
        self._prepared: dict[str, asyncpg.prepared_stmt.PreparedStatement[Row]] | None = None

    @classmethod
    async def open(cls, location: DatabaseLocation) -> Session:
        """Connect, and be ready for calls, within `PATIENCE` in all. Raises what the driver raises."""
        async with asyncio.timeout(PATIENCE):
            # The driver's own cache is off: it would name statements on whatever server a pooler picks.
            connection = await asyncpg.connect(location.dsn, statement_cache_size=0, command_timeout=None)
            return await cls._made_ready(connection)

    @classmethod
    async def _made_ready(cls, connection: asyncpg.Connection[Row]) -> Session:
        session = cls(connection)
        try:
            # A pooler answers with a process id of its own making.
            if await connection.fetchval("select pg_backend_pid()") == connection.get_server_pid():
                await connection.execute(_SESSION)
                session._prepared = {}
            else:
                await _learn_types(connection)
        except BaseException:
            connection.terminate()
            raise
        return session

    @property
    def pooled(self) -> bool:
        """Whether a pooler stands in between: then sessions are not ours, and cannot listen."""
        return self._prepared is None

    @property
    def lost(self) -> bool:
        return self.connection.is_closed()

    async def fetch(self, statement: str, arguments: Sequence[Any]) -> list[Row]:
        """Run one statement in a transaction of its own."""
        if self._prepared is None:
            return await self.connection.fetch(statement, *arguments, timeout=CALL_TIMEOUT)
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = await self.connection.prepare(statement, timeout=CALL_TIMEOUT)
        return await prepared.fetch(*arguments, timeout=CALL_TIMEOUT)

    async def close(self) -> None:
        """Say goodbye, or hang up where the other side is gone."""
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
        """Run one statement in a transaction of its own and return its rows. See `run` for what happens in trouble."""
        return await self.run(lambda session: session.fetch(statement, arguments), repeatable=repeatable)

    async def run(self, call: Callable[[Session], Awaitable[T]], *, repeatable: bool = False) -> T:
        """Lend a session to a call that makes one transaction on it.

        Where nothing can have happened (no connection, a deadlock the server resolved against us) or where it does not
        matter (`repeatable`), it is tried again for as long as `PATIENCE` says. A connection lost in the middle of
        anything else is a `QueueUnavailableError` at once: only the caller knows what to make of not knowing.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        wait = 0.05
        while True:
            try:
                return await self._try(call)
            except _NotNowError as not_now:
                if not (not_now.untouched or repeatable) or loop.time() + wait > until or self._closed:
                    raise not_now.error from not_now.error.__cause__
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads a fleet's reconnections
            wait = min(wait * 2, 1.0)

    def adopt(self, session: Session) -> None:
        """Take over a session that is open already."""
        self._idle.append(session)

    async def _try(self, call: Callable[[Session], Awaitable[T]]) -> T:
        async with self._free:
            session = await self._session()
            kept = False
            try:
                answer = await call(session)
                kept = True
                return answer
            except DRIVER_ERRORS as error:
                # The server answered, so the session is sound; unless it said goodbye.
                kept = isinstance(error, asyncpg.PostgresError) and not (error.sqlstate or "").startswith(("08", "57P"))
                raise self._told(error, untouched=was_undone(error)) from error
            finally:
                # A cancelled call leaves the connection in the middle of something.
                if kept and not session.lost and not self._closed:
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
            raise self._told(error, untouched=True) from error

    def _told(self, error: Exception, *, untouched: bool) -> Exception:
        known = fault(error, self.location)
        if known is None:
            return error
        known.__cause__ = error
        return _NotNowError(known, untouched=untouched) if isinstance(known, QueueUnavailableError) else known

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when its call ends."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()


async def _learn_types(connection: asyncpg.Connection[Row]) -> None:
    """Let the driver ask for the types it will meet, in one transaction and without compiling the question.

    It asks once for each connection. Behind a pooler its own precaution against compiling may reach another server
    connection than the question does, which then takes seconds.
    """
    async with connection.transaction():
        await connection.execute("set local jit = off")
        await connection.fetch(
            "select $1::int[], $2::bigint[], $3::float8[], $4::bool[], $5::json[]", [], [], [], [], []
        )


async def open_session(location: DatabaseLocation) -> Session:
    """Connect once, now. Raises our error for whatever stands in the way."""
    try:
        return await Session.open(location)
    except DRIVER_ERRORS as error:
        raise fault(error, location) or error from error


class _NotNowError(Exception):
    """Inside this file: an error that may pass, and whether the call surely left nothing behind."""

    def __init__(self, error: QueueUnavailableError, *, untouched: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.untouched = untouched
