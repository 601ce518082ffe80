"""Notes: a row for each, replaced by whoever read the version that is there."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

import msgspec

from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.sqlite.statements import json_list, statements
from longshore.stored import encode

_SQL = statements("notes")
_decode = msgspec.json.Decoder().decode


def read_notes(db: sqlite3.Connection, shelf: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
    """What lies on a shelf, by name; where names are given, only those."""
    rows = db.execute(_SQL["all" if names is None else "named"], {"shelf": shelf, "names": json_list(names)})
    return tuple(StateEntry(name, version, _decode(value)) for name, version, value in rows)


class NewNotes:
    """Notes on their way into the table; what needs no look at it is done here, before the lock is taken."""

    def __init__(self, shelf: str, notes: Sequence[StateEntry]) -> None:
        self._shelf = shelf
        self._notes = [(note, None if note.value is None else encode(note.value, "A shared entry")) for note in notes]

    def write(self, db: sqlite3.Connection) -> list[str | None]:
        """Write each whose version is the one that is there; the answer is its new version, or None."""
        return [self._replace(db, note, value) for note, value in self._notes]

    def _replace(self, db: sqlite3.Connection, note: StateEntry, value: bytes | None) -> str | None:
        place = (self._shelf, note.name)
        (there,) = db.execute(_SQL["version"], place).fetchone() or (ABSENT,)
        if note.version != there:
            return None
        if value is None:
            db.execute(_SQL["remove"], place)
            return ABSENT
        # By chance rather than counted: a counter would be one more page to write.
        version = secrets.token_hex(8)
        db.execute(_SQL["write"], (*place, version, value))
        return version
