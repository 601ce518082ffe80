"""Shared state: one row per entry, replaced by compare-and-swap on its version."""

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


def read_notes(db: sqlite3.Connection, namespace: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
    """Return the entries of a namespace, ordered by name; if `names` is given, only those."""
    rows = db.execute(_SQL["all" if names is None else "named"], {"shelf": namespace, "names": json_list(names)})
    return tuple(StateEntry(name, version, _decode(value)) for name, version, value in rows)


class NewNotes:
    """A batch of entries to write. The constructor encodes the values, before the write lock is taken."""

    def __init__(self, namespace: str, entries: Sequence[StateEntry]) -> None:
        self._namespace = namespace
        self._entries = [
            (entry, None if entry.value is None else encode(entry.value, "A shared entry")) for entry in entries
        ]

    def write(self, db: sqlite3.Connection) -> list[str | None]:
        """Write each entry whose version is the stored one; return for each its new version, or None if it differs."""
        return [self._replace(db, entry, value) for entry, value in self._entries]

    def _replace(self, db: sqlite3.Connection, entry: StateEntry, value: bytes | None) -> str | None:
        key = (self._namespace, entry.name)
        (stored,) = db.execute(_SQL["version"], key).fetchone() or (ABSENT,)
        if entry.version != stored:
            return None
        if value is None:
            db.execute(_SQL["remove"], key)
            return ABSENT
        # Random, not counted: a counter would be one more page to write.
        version = secrets.token_hex(8)
        db.execute(_SQL["write"], (*key, version, value))
        return version
