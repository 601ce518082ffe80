"""The schema of the file: which program owns it, which version it has, and the migration to the newest version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from longshore.errors import ForeignQueueError, NewerSchemaError
from longshore.media.sqlite.faults import translate
from longshore.media.sqlite.hosts import host_number
from longshore.media.sqlite.statements import migrations

APPLICATION_ID = 0x4C4E4753
"""`LNGS`: marks the file as a Longshore queue, also for `file(1)`."""

_MIGRATIONS = migrations()
VERSION = len(_MIGRATIONS)


def version_of(path: Path) -> int:
    """Return the schema version of a file; 0 if it does not exist. Creates nothing, and raises what `check` raises."""
    if not path.is_file():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            return check(db, path)
    except sqlite3.Error as error:
        raise translate(error, path) from error


def check(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of the file; 0 if it is empty. Writes nothing.

    Raises `ForeignQueueError` for a database of another program, `NewerSchemaError` for one of a newer Longshore.
    """
    owner, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if owner != APPLICATION_ID:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise ForeignQueueError(
                f"'{path}' is an SQLite database of another program. Name another file; this one was not changed."
            )
    if version > VERSION:
        raise NewerSchemaError(
            f"The queue '{path}' was made by a newer Longshore (its schema is {version}, this one knows {VERSION}). "
            "Upgrade Longshore here, or name another file."
        )
    _check_statements(db, path)
    return version


def _check_statements(db: sqlite3.Connection, path: Path) -> None:
    """Raise `ForeignQueueError` if the file has statements that are not ours, which would run when it is used.

    A checkout comes back from another machine: a trigger or a view in it could keep this one busy without end.
    """
    for what, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')"):
        if any(sql in script for script in _MIGRATIONS):
            continue
        raise ForeignQueueError(
            f"'{path}' has a {what} of its own, {ascii(name)[:100]}, which Longshore never makes. Find out who "
            "added it, and remove it before you use the queue; nothing was changed."
        )


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate the tables to the newest version. Call it in an immediate transaction: a second process finds it done."""
    version = check(db, path)
    db.create_function("host_number", 1, host_number, deterministic=True)
    for script in _MIGRATIONS[version:]:
        for statement in _split(script):
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def uuid_of(db: sqlite3.Connection) -> str:
    """Return the uuid of the queue. Its tables must have the newest version."""
    (uuid,) = db.execute("SELECT uuid FROM queue").fetchone()
    return str(uuid)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    (value,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _split(script: str) -> list[str]:
    """Return the script's statements. `executescript` would commit the transaction that makes a migration atomic."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
