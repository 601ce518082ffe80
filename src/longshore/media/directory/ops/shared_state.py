"""Notes. One is a file whose name is the id of the change that wrote it, and that id is its version.

So a note is read as a whole or not at all, a new one takes the old one's place in the change that decides whose it is,
and who looks for a version finds a file of that name or knows that another was faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import note_of, shelf_of
from longshore.media.directory.files.quarantine import NOT_OURS, set_aside
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.stored import encode


class EntryFile(msgspec.Struct, frozen=True):
    """What is in a note's file."""

    shelf: str
    name: str
    value: Any


class EntryFiles:
    """Notes of one call, to be written. What cannot be stored raises at once, before anything is written."""

    def __init__(self, journal: Journal, shelf: str, notes: Sequence[StateEntry]) -> None:
        self._journal = journal
        self._notes = notes
        self._folders = [note_of(shelf, note.name) for note in notes]
        self._contents = [encode(EntryFile(shelf, note.name, note.value), "A shared entry") for note in notes]
        self._staged: dict[int, str] = {}

    def decide(self, draft: PendingChange, head: JournalHead) -> list[str | None]:
        """Put those into the draft whose version is the one that is there."""
        del head
        there = [_files(self._journal, folder) for folder in self._folders]
        good = [
            place
            for place, note in enumerate(self._notes)
            if note.version == (_version(there[place][0]) if there[place] else ABSENT)
        ]
        unstaged = [place for place in good if self._notes[place].value is not None and place not in self._staged]
        self._staged.update(zip(unstaged, draft.stage([self._contents[place] for place in unstaged]), strict=True))
        answers: list[str | None] = [None] * len(self._notes)
        for place in good:
            answers[place] = ABSENT
            if place in self._staged:
                draft.move(self._staged[place], f"{self._folders[place]}/{draft.id}.json")
                answers[place] = draft.id
            for name in there[place]:
                draft.remove(f"{self._folders[place]}/{name}")
        return answers

    def clear_away(self) -> None:
        """Take away the folders of notes that are gone."""
        for folder, note in zip(self._folders, self._notes, strict=True):
            if note.value is None:
                disk.remove_if_empty(self._journal.path(folder))


def lying(journal: Journal, shelf: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
    """What lies on a shelf at one instant, by name."""
    while True:
        journal.catch_up()
        written = journal.notes_written
        found = tuple(sorted(_read(journal, shelf, names), key=lambda note: note.name))
        journal.look()
        if journal.notes_written == written:
            return found


def _read(journal: Journal, shelf: str, names: frozenset[str] | None) -> Iterator[StateEntry]:
    if names is None:
        folders = [f"{shelf_of(shelf)}/{name}" for name in disk.names(journal.path(shelf_of(shelf)))]
    else:
        folders = [note_of(shelf, name) for name in names]
    for folder in folders:
        for name in _files(journal, folder)[:1]:
            path = f"{folder}/{name}"
            try:
                written = _decode(disk.read(journal.path(path)))
            except FileNotFoundError:
                continue  # Replaced this moment; then the shelf is looked at again.
            except (msgspec.DecodeError, RecursionError) as error:
                set_aside(journal.root, path, f"It is no note: {error}")
                continue
            if written.shelf == shelf and note_of(shelf, written.name) == folder:
                yield StateEntry(written.name, _version(name), written.value)
            else:
                set_aside(journal.root, path, "It was moved by hand: it is a note of another name.")


def _files(journal: Journal, folder: str) -> list[str]:
    """The file of a note; none where there is no note, and more only where a person put them."""
    found = []
    for name in sorted(disk.names(journal.path(folder))):
        if re.fullmatch(r"[0-9a-f]{12}\.json", name):
            found.append(name)
        elif not name.startswith(".nfs"):
            set_aside(journal.root, f"{folder}/{name}", NOT_OURS)
    return found


def _version(name: str) -> str:
    return name.removesuffix(".json")


_decode = msgspec.json.Decoder(EntryFile).decode
