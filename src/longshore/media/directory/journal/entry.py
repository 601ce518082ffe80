"""One entry of the journal, and the head: the state after the last entry."""

from __future__ import annotations

import secrets

import msgspec

from longshore.media.directory.files.layout import Slot


class LaneCounts(msgspec.Struct, kw_only=True):
    """One run, kind and partition, and the number of its jobs in each `Slot`."""

    run: str
    kind: str
    partition: str
    counts: list[int]


class JournalEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One complete change: the files that move or are removed, and what that does to the counters."""

    n: int
    """Its position in the order of all changes."""
    id: str
    what: str
    """The operation that made it; for people who read the journal."""
    numbers: int
    """The number that the next new job gets after this change."""
    moves: list[tuple[str, str]] = []
    removes: list[str] = []
    deltas: dict[str, list[int]] = {}
    lanes: dict[str, tuple[str, str, str]] = {}
    """New lanes: folder, then run, kind and partition."""
    frees_keys: bool = False
    after: str = ""
    """The id of the change before it; "" if an older Longshore wrote this one or the one before it."""


class JournalHead(msgspec.Struct, kw_only=True):
    """The state after change number `n`."""

    n: int = 0
    id: str = ""
    """The id of change number `n`; "" if it is not known."""
    numbers: int = 1
    """The number that the next new job gets."""
    lanes: dict[str, LaneCounts] = {}
    freed_keys: bool = False
    """Jobs were removed from the queue, so a recorded key may be that of a job that is gone."""

    def add(self, entry: JournalEntry) -> None:
        """Add an entry to the state."""
        self.n = entry.n
        self.id = entry.id
        self.numbers = entry.numbers
        self.freed_keys = self.freed_keys or entry.frees_keys
        for folder, (run, kind, partition) in entry.lanes.items():
            self.lanes.setdefault(folder, LaneCounts(run=run, kind=kind, partition=partition, counts=[0] * len(Slot)))
        for folder, delta in entry.deltas.items():
            lane = self.lanes.get(folder)
            if lane is None:
                # A person put a job back whose lane was forgotten. `reconcile` adds the lane, with its files.
                continue
            lane.counts = [count + change for count, change in zip(lane.counts, delta, strict=True)]
            if entry.frees_keys and not any(lane.counts):
                # Forget the lanes of pruned runs, or the head would grow forever.
                del self.lanes[folder]


def new_id() -> str:
    """Return a random id, unique among changes."""
    return secrets.token_hex(6)
