"""The shared state of a queue: few and small entries, so all are kept in memory."""

from __future__ import annotations

from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.git.state.branch_files import StoredEntry, entry_path


class EntryTable:
    """The entries of the shared state, by the paths of their files."""

    def __init__(self) -> None:
        self._entries: dict[str, StoredEntry] = {}

    def update(self, path: str, written: StoredEntry | None) -> None:
        """Set the content of a file; None if it is gone or cannot be decoded."""
        if written is None or written.value is None or entry_path(written.namespace, written.name) != path:
            # Ignore a file whose path belongs to another entry. Writing that entry replaces the file.
            self._entries.pop(path, None)
        else:
            self._entries[path] = written

    def version(self, path: str) -> str:
        """Return the version of the entry at this path; `ABSENT` if there is none."""
        return self._entries[path].version if path in self._entries else ABSENT

    def read(self, namespace: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
        """Return the entries of a namespace, ordered by name."""
        found = [
            StateEntry(each.name, each.version, each.value)
            for each in self._entries.values()
            if each.namespace == namespace and (names is None or each.name in names)
        ]
        return tuple(sorted(found, key=lambda entry: entry.name))
