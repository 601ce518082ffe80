"""The schema: created and migrated under one lock, and checked whenever a queue is opened."""

from __future__ import annotations

import asyncio
from importlib.resources import files

from longshore.errors import ForeignQueueError, NewerSchemaError, QueueError
from longshore.media.postgres.connections import (
    CALL_TIMEOUT,
    RECONNECT_TIMEOUT,
    Session,
    open_session,
    terminated_on_failure,
)
from longshore.media.postgres.faults import DRIVER_ERRORS, fault
from longshore.media.postgres.location import DatabaseLocation, locate

MIGRATIONS = (
    "0001_tables.sql",
    "0002_parents_and_roll.sql",
    "0003_hosts_and_notes.sql",
    "0004_beginnings.sql",
    "0005_holders.sql",
    "0006_uuid.sql",
    "0007_error_patterns.sql",
    "0008_handler_versions.sql",
    "0009_duplicates.sql",
)
"""Applied in order, each once. The version of a schema is the number of applied migrations."""
VERSION = len(MIGRATIONS)
_TABLES = [
    "migration",
    "family",
    "lane",
    "job",
    "ready",
    "delayed",
    "worker",
    "batch",
    "done",
    "attempt",
    "tally",
    "known",
    "note",
    "queue_uuid",
]
# Created again with every migration: functions hold no data, and belong to the version that calls them.
_FUNCTIONS = (
    "submit.sql",
    "pick.sql.in",
    "claim.sql",
    "settle.sql",
    "lease.sql",
    "stats.sql",
    "select.sql",
    "operate.sql",
    "transfer.sql",
    "notes.sql",
)


async def migrate(url: str) -> tuple[int, int]:
    """Create or migrate the schema that the URL names; safe at any time, also by many processes at once.

    Returns its version before (0 if it did not exist) and after. Raises `NewerSchemaError` if a newer Longshore
    migrated it, and `ForeignQueueError` if other objects have the names of Longshore's tables.
    """
    location = locate(url)
    session = await open_session(location)
    try:
        return await migrate_session(session, location)
    finally:
        await session.close()


async def exists(url: str) -> bool:
    """Return whether the schema that the URL names has a queue. Creates nothing; answers within `RECONNECT_TIMEOUT`.

    Raises the errors of `migrate` if the schema is used by other objects or the server refuses access.
    """
    location = locate(url)
    try:
        async with asyncio.timeout(RECONNECT_TIMEOUT):
            session = await Session.open(location)
            with terminated_on_failure(session.connection):
                found = await _version(session, location)
    except DRIVER_ERRORS as error:
        raise fault(error, location) or error from error
    await session.close()
    return found > 0


async def migrate_session(session: Session, location: DatabaseLocation) -> tuple[int, int]:
    """Migrate on an open session: read the version, and write only if a migration is missing."""
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            found = await _version(session, location)
        if found < VERSION:
            found = await _apply(session, location)
    except DRIVER_ERRORS as error:
        raise fault(error, location) or error from error
    return found, VERSION


async def uuid_of(session: Session, location: DatabaseLocation) -> str:
    """Return the uuid of the queue. Its schema must have the newest version."""
    statement = f"select uuid from {location.quoted_schema}.queue_uuid"  # noqa: S608 - it is quoted
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            return str(await session.connection.fetchval(statement))
    except DRIVER_ERRORS as error:
        raise fault(error, location) or error from error


async def _version(session: Session, location: DatabaseLocation) -> int:
    """Return the number of migrations applied to the schema; 0 if it does not exist."""
    connection = session.connection
    encoding = await connection.fetchval(
        "select pg_encoding_to_char(encoding) from pg_database where datname = current_database()"
    )
    if encoding != "UTF8":
        raise QueueError(
            f"The database at {location.shown} is encoded in {encoding}. Fix: use a database with encoding UTF8"
        )
    # One statement, so that another process cannot create the schema between two looks at it.
    rows = await connection.fetch(
        "select relname from pg_class c join pg_namespace n on n.oid = relnamespace "
        "where nspname = $1 and relname = any($2::text[]) order by relname",
        location.schema,
        _TABLES,
    )
    taken = [row[0] for row in rows]
    if "migration" not in taken:
        if taken:
            raise ForeignQueueError(
                f"Schema {location.schema} of {location.shown} is used by other tables: {', '.join(taken)}. "
                "Fix: name a separate schema for the queue (?schema=...)"
            )
        return 0
    versions = f"select coalesce(max(version), 0) from {location.quoted_schema}.migration"  # noqa: S608 - it is quoted
    found = int(await connection.fetchval(versions))
    if found > VERSION:
        raise NewerSchemaError(
            f"The queue in schema {location.schema} of {location.shown} has version {found}; this Longshore knows "
            f"{VERSION}. Fix: upgrade Longshore on this machine"
        )
    return found


async def _apply(session: Session, location: DatabaseLocation) -> int:
    """Apply the missing migrations and return the version before; another process may have applied them meanwhile."""
    connection, schema = session.connection, location.quoted_schema
    async with connection.transaction():
        # A lock of the transaction, not of the session, which would outlive the call behind a pooler.
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"longshore migrate {location.schema}"
        )
        # Rewriting a large backlog takes long; a timeout in the middle would only force it to start again.
        await connection.execute("set local client_min_messages = warning; set local statement_timeout = 0")
        found = await _version(session, location)
        if found == VERSION:
            return found
        if not await connection.fetchval(
            "select exists (select from pg_namespace where nspname = $1)", location.schema
        ):
            await connection.execute(f"create schema {schema}")
        await connection.execute(f"set local search_path = {schema}")
        await connection.execute(
            "create table if not exists migration "
            "(version int primary key, applied_at timestamptz not null default now())"
        )
        for number, name in enumerate(MIGRATIONS[found:], start=found + 1):
            await connection.execute(statements(name))
            await connection.execute("insert into migration (version) values ($1)", number)
        for name in _FUNCTIONS:
            await connection.execute(statements(name))
        return found


def statements(name: str) -> str:
    """Return the SQL of a file; an `.in` file is a template, expanded for families and for lanes."""
    text = (files("longshore.media.postgres") / "sql" / name).read_text(encoding="utf-8")
    if not name.endswith(".in"):
        return text
    return "\n".join(text.replace("{line}", line) for line in ("family", "lane"))
