"""The notes of a queue: few and small, so all of them are at hand."""

from __future__ import annotations

from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.git.state.branch_files import StoredEntry, note_path


class EntryTable:
    """What is noted, by the paths of the files."""

    def __init__(self) -> None:
        self._notes: dict[str, StoredEntry] = {}

    def learn(self, path: str, written: StoredEntry | None) -> None:
        """A file says this now; None if it is not there, or cannot be understood."""
        if written is None or written.value is None or note_path(written.shelf, written.name) != path:
            # What lies under another's name is nobody's note. A new one takes its place.
            self._notes.pop(path, None)
        else:
            self._notes[path] = written

    def version(self, path: str) -> str:
        """The version of the note that is there."""
        return self._notes[path].version if path in self._notes else ABSENT

    def lying(self, shelf: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
        """What lies on a shelf, by name."""
        found = [
            StateEntry(each.name, each.version, each.value)
            for each in self._notes.values()
            if each.shelf == shelf and (names is None or each.name in names)
        ]
        return tuple(sorted(found, key=lambda note: note.name))
