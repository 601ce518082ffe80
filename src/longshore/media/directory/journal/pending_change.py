"""A change before its commit: its staged files, and the moves and removals it will make."""

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
    """A change that is not committed yet. Leaving the `with` block without a commit discards it.

    Content is staged once; the moves are decided again (`restart`) whenever another change was committed first.
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
        """None while it is unknown: link(2) was called and has not returned."""
        self.restart(JournalHead())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Never remove the folder of a committed change: if this process failed to apply it, others will.
        if self._made and self.committed is False:
            disk.remove_tree(self.folder)

    def restart(self, head: JournalHead) -> None:
        """Discard all decisions; staged files stay."""
        self.numbers = head.numbers
        self.keys: set[str] = set()
        """Keys that this change records."""
        self._moves: list[tuple[str, str]] = []
        self._removes: list[str] = []
        self._deltas: dict[str, list[int]] = {}
        self._lanes: dict[str, tuple[str, str, str]] = {}
        self._frees_keys = False

    @property
    def is_empty(self) -> bool:
        """Whether the change would do nothing."""
        return not (self._moves or self._removes or self._deltas)

    def stage(self, contents: Sequence[bytes]) -> list[str]:
        """Write and fsync new files, and return the paths to move them from."""
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

    def record_key(self, key: str, owner: str) -> None:
        """Record a key for the job `owner`."""
        # A symbolic link whose target is no file: the cheapest way to store a short text under a name.
        self._make()
        own = f"{self.folder}/{self._staged}"
        os.symlink(owner, own)  # noqa: PTH211
        self._staged += 1
        self._unsynced = True
        self.move(self._relative(own), key)

    def free_keys(self) -> None:
        """Mark that this change removes jobs from the queue, so that their keys can be submitted again."""
        self._frees_keys = True

    def count(self, lane: str, slot: Slot, delta: int) -> None:
        """Add `delta` to a counter."""
        deltas = self._deltas.setdefault(lane, [0] * len(Slot))
        deltas[slot] += delta

    def lane(self, head: JournalHead, run: str, kind: str, partition: str) -> str:
        """Return the folder of a lane; this change adds the lane if it is new."""
        folder = lane_of(run, kind, partition)
        if folder not in head.lanes:
            self._lanes[folder] = (run, kind, partition)
        return folder

    def entry(self, head: JournalHead) -> JournalEntry:
        """Return the entry of this change as the successor of `head`."""
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
            after=head.id,
        )

    def write(self, entry: JournalEntry) -> None:
        """Write the entry and fsync everything that the change needs."""
        self._make()
        disk.rewrite(self.file, msgspec.json.encode(entry))
        if self._unsynced:
            disk.sync_folder(self.folder)
            disk.sync_folder(f"{self._root}/staging")
            self._unsynced = False

    def _make(self) -> None:
        if not self._made:
            os.mkdir(self.folder)  # noqa: PTH102
            # Created here only: `Journal.sweep` renames this file, and then it can no longer be linked.
            disk.write_hint(self.file, b"")
            self._made = True

    def _relative(self, path: str) -> str:
        return path[len(self._root) + 1 :]
