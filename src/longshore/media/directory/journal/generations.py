"""The folders of the journal, one for each generation of changes: their files, and how one follows another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from longshore.errors import QueueError, QueueUnavailableError
from longshore.media.directory.files import disk
from longshore.media.directory.journal.entry import JournalEntry, JournalHead, new_id

GENERATION = 64
"""Changes in one folder of the journal."""

_decode_entry = msgspec.json.Decoder(JournalEntry).decode
_decode_head = msgspec.json.Decoder(JournalHead).decode


class Generations:
    """The generations of the journal of the queue in the folder `root`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def folder(self, generation: int) -> str:
        """Return the folder of a generation."""
        return f"{self._root}/journal/{generation:010d}"

    def file(self, n: int) -> str:
        """Return the file of the change with this number."""
        return f"{self.folder(generation_of(n))}/{n:012d}.json"

    def numbers(self) -> list[int]:
        """Return the generations that are there, oldest first."""
        return sorted(int(name) for name in disk.names(f"{self._root}/journal") if name.isdigit())

    def entries(self, generation: int) -> Iterator[JournalEntry]:
        """Yield the changes of a generation, in order."""
        for n in range(generation * GENERATION + 1, (generation + 1) * GENERATION + 1):
            try:
                data = disk.read(self.file(n))
            except FileNotFoundError:
                return
            yield self.parsed(data, n)

    def parsed(self, data: bytes, n: int) -> JournalEntry:
        """Return the change with the number `n`, decoded."""
        try:
            entry = _decode_entry(data)
        except msgspec.DecodeError as error:
            raise self._damaged(f"{n:012d}.json", error) from error
        if entry.n != n:
            raise self._damaged(f"{n:012d}.json", ValueError(f"it has the number {entry.n}"))
        return entry

    def newest_head(self) -> JournalHead:
        """Return the head with which the newest generation begins."""
        while True:
            generations = self.numbers()
            if not generations:
                raise QueueUnavailableError(
                    f"The journal of the queue '{self._root}' is gone. Open the queue again: the journal is then "
                    "rebuilt from the job files."
                )
            try:
                data = disk.read(f"{self.folder(max(generations))}/base.json")
                break
            except FileNotFoundError:
                continue  # Retired a moment ago, so there is a newer one.
        try:
            return _decode_head(data)
        except msgspec.DecodeError as error:
            raise self._damaged("base.json", error) from error

    def begin(self, generation: int, head: JournalHead) -> None:
        """Put the folder of the next generation in place, and remove the old ones."""
        if os.path.lexists(self.folder(generation)):
            return
        coming = f"{self.folder(generation - 1)}/next"
        own = f"{self._root}/staging/base.{new_id()}"
        disk.write(own, msgspec.json.encode(head))
        try:
            # Any process may be first: all write the same content, because it follows from the entries.
            with suppress(FileExistsError):
                os.link(own, f"{coming}/base.json")
            with suppress(FileExistsError):
                os.mkdir(f"{coming}/next")  # noqa: PTH102
            disk.sync_folder(coming)
            os.rename(coming, self.folder(generation))  # noqa: PTH104
        except FileNotFoundError:
            # Another process has put the folder in place in the meantime.
            return
        finally:
            disk.remove(own)
        disk.sync_folder(f"{self._root}/journal")
        for old in self.numbers():
            if old < generation - 1:
                self._retire(old)

    def _retire(self, generation: int) -> None:
        """Sync all folders that the entries of an applied generation touched, then remove the generation."""
        touched = {os.path.dirname(path) for entry in self.entries(generation) for path in _paths(entry)}  # noqa: PTH120
        disk.sync_folders([f"{self._root}/{folder}" for folder in sorted(touched)])
        trash = f"{self._root}/trash/{generation}.{new_id()}"
        if disk.move(self.folder(generation), trash):
            disk.remove_tree(trash)

    def _damaged(self, name: str, error: Exception) -> QueueError:
        return QueueError(
            f"The journal of the queue '{self._root}' is damaged: {name} cannot be read ({error}). Stop all workers, "
            f"move '{self._root}/journal' away and open the queue again: the journal is rebuilt from the job files."
        )


def create(root: str, head: JournalHead) -> None:
    """Make the first generation of a journal, unless there is one."""
    own = f"{root}/staging/journal.{new_id()}"
    os.makedirs(f"{own}/next")  # noqa: PTH103
    disk.write(f"{own}/base.json", msgspec.json.encode(head))
    disk.sync_folder(own)
    try:
        os.rename(own, f"{root}/journal/{generation_of(head.n + 1):010d}")  # noqa: PTH104
    except OSError:
        # The target is not empty: another process was first. Any other failure shows when the journal is read.
        disk.remove_tree(own)
    disk.sync_folder(f"{root}/journal")


def generation_of(n: int) -> int:
    """Return the generation of the change with this number."""
    return (n - 1) // GENERATION


def begins_generation(n: int) -> bool:
    """Return whether the change with this number is the first of a generation, other than the first one."""
    return n % GENERATION == 1 and n > 1


def _paths(entry: JournalEntry) -> Iterator[str]:
    for source, target in entry.moves:
        yield source
        yield target
    yield from entry.removes
