"""Whose file it is, which version of the tables it holds, and how it gets to today's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from longshore.errors import ForeignQueueError, NewerSchemaError
from longshore.media.sqlite.faults import translate
from longshore.media.sqlite.hosts import host_number
from longshore.media.sqlite.statements import migrations

APPLICATION_ID = 0x4C4E4753
"""`LNGS`: marks the file as ours, for us and for `file(1)`."""

_MIGRATIONS = migrations()
VERSION = len(_MIGRATIONS)


def version_of(path: Path) -> int:
    """The schema version of a file; 0 where there is none. Makes nothing, and raises what `check` raises."""
    if not path.is_file():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            return check(db, path)
    except sqlite3.Error as error:
        raise translate(error, path) from error


def check(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one. Writes nothing.

    Raises `ForeignQueueError` for a database of something else, `NewerSchemaError` for one made by a newer Longshore.
    """
    owner, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if owner != APPLICATION_ID:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise ForeignQueueError(
                f"'{path}' is an SQLite database of something else. Name another file; this one was left as it is."
            )
    if version > VERSION:
        raise NewerSchemaError(
            f"The queue '{path}' was made by a newer Longshore (its schema is {version}, this one knows {VERSION}). "
            "Upgrade Longshore here, or name another file."
        )
    return version


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to today's version. Call it in an immediate transaction: the second to arrive finds it done."""
    version = check(db, path)
    db.create_function("host_number", 1, host_number, deterministic=True)
    for script in _MIGRATIONS[version:]:
        for statement in _split(script):
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    (value,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _split(script: str) -> list[str]:
    """The script's statements. `executescript` would commit the transaction that makes a migration all or nothing."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
