"""A change in the making: its new content in a folder of its own, and what is to move where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import Slot, lane_of
from longshore.media.directory.journal.entry import JournalEntry, JournalHead, new_id


class PendingChange:
    """A change that is not made yet. Leave the block without a commit, and nothing is left of it.

    Content is staged once; what it does is decided anew (`restart`) whenever another change came first.
    """

    def __init__(self, root: str, what: str) -> None:
        self.id = new_id()
        self.folder = f"{root}/staging/{self.id}"
        self.file = f"{self.folder}/entry.json"
        self._root = root
        self._what = what
        self._staged = 0
        self._unsynced = False
        self._made = False
        self.committed: bool | None = False
        """None while nobody can say: the link was asked for and not answered."""
        self.restart(JournalHead())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A change that was made has no folder any more, unless this process failed in carrying it out: others will.
        if self._made and self.committed is False:
            disk.remove_tree(self.folder)

    def restart(self, head: JournalHead) -> None:
        """Forget what was decided; what is staged stays."""
        self.numbers = head.numbers
        self.keys: set[str] = set()
        """Keys that this change takes."""
        self._moves: list[tuple[str, str]] = []
        self._removes: list[str] = []
        self._deltas: dict[str, list[int]] = {}
        self._lanes: dict[str, tuple[str, str, str]] = {}
        self._frees_keys = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self._moves or self._removes or self._deltas)

    def stage(self, contents: Sequence[bytes]) -> list[str]:
        """Write new files, synced; the paths to move them from."""
        if not contents:
            return []
        self._make()
        paths = [f"{self.folder}/{self._staged + place}" for place in range(len(contents))]
        disk.write_all(list(zip(paths, contents, strict=True)))
        self._staged += len(contents)
        self._unsynced = True
        return [self._relative(path) for path in paths]

    def move(self, source: str, target: str) -> None:
        """Rename a file; paths are relative to the queue."""
        self._moves.append((source, target))

    def remove(self, path: str) -> None:
        """Unlink a file."""
        self._removes.append(path)

    def note_key(self, key: str, owner: str) -> None:
        """Take a key for a job; `owner` says which."""
        # The target names no file: a symbolic link is the smallest thing that a name can lead to.
        self._make()
        own = f"{self.folder}/{self._staged}"
        os.symlink(owner, own)  # noqa: PTH211
        self._staged += 1
        self._unsynced = True
        self.move(self._relative(own), key)

    def free_keys(self) -> None:
        """Jobs leave the queue with this change, so their keys may be taken anew."""
        self._frees_keys = True

    def count(self, lane: str, slot: Slot, change: int) -> None:
        """Change a counter."""
        deltas = self._deltas.setdefault(lane, [0] * len(Slot))
        deltas[slot] += change

    def lane(self, head: JournalHead, run: str, kind: str, partition: str) -> str:
        """The folder of a lane, made known with this change if it is not."""
        folder = lane_of(run, kind, partition)
        if folder not in head.lanes:
            self._lanes[folder] = (run, kind, partition)
        return folder

    def entry(self, head: JournalHead) -> JournalEntry:
        """The change as it would follow that head."""
        return JournalEntry(
            n=head.n + 1,
            id=self.id,
            what=self._what,
            numbers=max(self.numbers, head.numbers),
            moves=self._moves,
            removes=self._removes,
            deltas=self._deltas,
            lanes=self._lanes,
            frees_keys=self._frees_keys,
        )

    def write(self, entry: JournalEntry) -> None:
        """Put everything on the disk that the change needs."""
        self._make()
        disk.rewrite(self.file, msgspec.json.encode(entry))
        if self._unsynced:
            disk.sync_folder(self.folder)
            disk.sync_folder(f"{self._root}/staging")
            self._unsynced = False

    def _make(self) -> None:
        if not self._made:
            os.mkdir(self.folder)  # noqa: PTH102
            # Made here and never again: whoever sweeps the folder renames it, and then it cannot be linked any more.
            disk.write_hint(self.file, b"")
            self._made = True

    def _relative(self, path: str) -> str:
        return path[len(self._root) + 1 :]
