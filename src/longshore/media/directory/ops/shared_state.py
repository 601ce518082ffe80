"""Shared state. An entry is a file named after the id of the change that wrote it, and that id is its version.

So an entry is never read in part, and compare-and-swap is one journal change: it replaces the file if a file named
after the expected version exists; if not, another process was faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.layout import entry_folder, namespace_folder
from longshore.media.directory.files.quarantine import NOT_OURS, move_to_rejected
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.stored import encode


class EntryFile(msgspec.Struct, frozen=True):
    """The content of an entry's file."""

    namespace: str = msgspec.field(name="shelf")
    name: str
    value: Any


class EntryFiles:
    """The entries that one call writes. The constructor raises if one cannot be stored, before anything is written."""

    def __init__(self, journal: Journal, namespace: str, entries: Sequence[StateEntry]) -> None:
        self._journal = journal
        self._entries = entries
        self._folders = [entry_folder(namespace, entry.name) for entry in entries]
        self._contents = [encode(EntryFile(namespace, entry.name, entry.value), "A shared entry") for entry in entries]
        self._staged: dict[int, str] = {}

    def decide(self, change: PendingChange, head: JournalHead) -> list[str | None]:
        """Add the entries whose expected version is the current one to the change; return the new versions."""
        del head
        # An outdated listing shows an outdated version, and the entry of another process would be replaced.
        with listing.fresh(self._journal):
            there = [_files(self._journal, folder) for folder in self._folders]
        good = [
            place
            for place, entry in enumerate(self._entries)
            if entry.version == (_version(there[place][0]) if there[place] else ABSENT)
        ]
        unstaged = [place for place in good if self._entries[place].value is not None and place not in self._staged]
        self._staged.update(zip(unstaged, change.stage([self._contents[place] for place in unstaged]), strict=True))
        answers: list[str | None] = [None] * len(self._entries)
        for place in good:
            answers[place] = ABSENT
            if place in self._staged:
                change.move(self._staged[place], f"{self._folders[place]}/{change.id}.json")
                answers[place] = change.id
            for name in there[place]:
                change.remove(f"{self._folders[place]}/{name}")
        return answers

    def remove_emptied(self) -> None:
        """Remove the folders of entries that were deleted."""
        for folder, entry in zip(self._folders, self._entries, strict=True):
            if entry.value is None:
                disk.remove_if_empty(self._journal.path(folder))


def read_state(journal: Journal, namespace: str, names: frozenset[str] | None) -> tuple[StateEntry, ...]:
    """Return the entries of a namespace at one instant, ordered by name."""
    while True:
        journal.catch_up()
        written = journal.state_changes
        found = tuple(sorted(_read(journal, namespace, names), key=lambda entry: entry.name))
        journal.refresh()
        if journal.state_changes == written:
            return found


def _read(journal: Journal, namespace: str, names: frozenset[str] | None) -> Iterator[StateEntry]:
    if names is None:
        parent = namespace_folder(namespace)
        folders = [f"{parent}/{name}" for name in disk.names(journal.path(parent))]
    else:
        folders = [entry_folder(namespace, name) for name in names]
    for folder in folders:
        for name in _files(journal, folder)[:1]:
            path = f"{folder}/{name}"
            try:
                written = _decode(disk.read(journal.path(path)))
            except FileNotFoundError:
                continue  # Replaced a moment ago; `read_state` then reads the namespace again.
            except (msgspec.DecodeError, RecursionError) as error:
                move_to_rejected(journal.root, path, f"It is not an entry of the shared state: {error}")
                continue
            if written.namespace == namespace and entry_folder(namespace, written.name) == folder:
                yield StateEntry(written.name, _version(name), written.value)
            else:
                move_to_rejected(journal.root, path, "It was moved: its entry has another name.")


def _files(journal: Journal, folder: str) -> list[str]:
    """Return the file of an entry; none if there is no entry, more than one only if a person put them there."""
    found = []
    for name in sorted(listing.listed(journal, folder)):
        if re.fullmatch(r"[0-9a-f]{12}\.json", name):
            found.append(name)
        elif not name.startswith(".nfs"):
            move_to_rejected(journal.root, f"{folder}/{name}", NOT_OURS)
    return found


def _version(name: str) -> str:
    return name.removesuffix(".json")


_decode = msgspec.json.Decoder(EntryFile).decode
