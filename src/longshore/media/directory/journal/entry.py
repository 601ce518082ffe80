"""One change of the queue, and the state that all changes so far add up to."""

from __future__ import annotations

import secrets

import msgspec

from longshore.media.directory.files.layout import Slot


class LaneCounts(msgspec.Struct, kw_only=True):
    """One run, kind and partition, and how many of its jobs lie where (indexed by `Slot`)."""

    run: str
    kind: str
    partition: str
    counts: list[int]


class JournalEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One change, whole: which files move where, which vanish, and what that does to the counters."""

    n: int
    """Its place in the order of all changes."""
    id: str
    what: str
    """Which operation made it; for people."""
    numbers: int
    """The number that the next new job gets after this change."""
    moves: list[tuple[str, str]] = []
    removes: list[str] = []
    deltas: dict[str, list[int]] = {}
    lanes: dict[str, tuple[str, str, str]] = {}
    """Lanes that were not known before: folder, then run, kind and partition."""
    frees_keys: bool = False


class JournalHead(msgspec.Struct, kw_only=True):
    """What all changes up to the n-th add up to."""

    n: int = 0
    numbers: int = 1
    """The number that the next new job gets."""
    lanes: dict[str, LaneCounts] = {}
    freed_keys: bool = False
    """Jobs were taken out of the queue, so a key that is noted may be that of a job that is gone."""

    def add(self, entry: JournalEntry) -> None:
        """One change more."""
        self.n = entry.n
        self.numbers = entry.numbers
        self.freed_keys = self.freed_keys or entry.frees_keys
        for folder, (run, kind, partition) in entry.lanes.items():
            self.lanes.setdefault(folder, LaneCounts(run=run, kind=kind, partition=partition, counts=[0] * len(Slot)))
        for folder, delta in entry.deltas.items():
            lane = self.lanes[folder]
            lane.counts = [count + change for count, change in zip(lane.counts, delta, strict=True)]
            if entry.frees_keys and not any(lane.counts):
                # Of a run that was cleaned away nothing is left, or what is kept of lanes would grow for ever.
                del self.lanes[folder]


def new_id() -> str:
    """An id that no other change has."""
    return secrets.token_hex(6)
