"""New jobs: numbered in the order of submission, each key once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from longshore.job import NewJob
from longshore.media.directory import listing
from longshore.media.directory.draft import Draft
from longshore.media.directory.entry import Head
from longshore.media.directory.journal import Journal
from longshore.media.directory.layout import File, Slot, key_of, pending, segment_of
from longshore.media.directory.record import encode, record_of


class Arrivals:
    """Jobs that want in. Made ready at once, so that a batch that cannot be stored leaves nothing behind."""

    def __init__(self, jobs: Sequence[NewJob], now: float) -> None:
        self._jobs = jobs
        self._now = now
        self._contents = [encode(record_of(job, now)) for job in jobs]
        self._keys = [key_of(job.run, job.kind, job.key) for job in jobs]
        self._staged: dict[int, str] = {}

    def join(self, journal: Journal, draft: Draft, head: Head, which: Iterable[int]) -> int:
        """Put those of the jobs into the draft that are new, in their order. Returns how many."""
        noted = _Noted(journal)
        new = []
        for place in which:
            key = self._keys[place]
            if key not in draft.keys and not (noted.is_taken(key) if head.freed_keys else noted.is_there(key)):
                draft.keys.add(key)
                new.append(place)
        unstaged = [place for place in new if place not in self._staged]
        paths = draft.stage([self._contents[place] for place in unstaged])
        self._staged.update(zip(unstaged, paths, strict=True))
        for place in new:
            job, number = self._jobs[place], draft.numbers
            draft.numbers += 1
            due = job.not_before is not None and job.not_before > self._now
            instant = round((job.not_before or 0.0) * 1e6) if due else None
            file = File(number, job.priority, 0, 0, instant, draft.id)
            lane = draft.lane(head, job.run, job.kind, job.partition)
            draft.note_key(self._keys[place], lane, number)
            draft.move(self._staged[place], pending(lane, file))
            draft.count(lane, Slot.DELAYED if due else Slot.READY, 1)
        return len(new)


class _Noted:
    """Keys that are noted, and whether the jobs they were noted for are still there."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._alive: dict[tuple[str, str], set[int]] = {}

    def is_there(self, key: str) -> bool:
        """Whether the key is noted at all."""
        return os.path.lexists(self._journal.path(key))

    def is_taken(self, key: str) -> bool:
        """Whether the job the key was noted for is in the queue."""
        owner = owner_of(self._journal, key)
        if owner is None:
            return False
        lane, number = owner
        segment = segment_of(number)
        if (lane, segment) not in self._alive:
            first = int(segment) * 1000
            everything = frozenset(range(first, first + 1000))
            portions = listing.by_segment(self._journal, [lane], list(Slot), first - 1, everything)
            self._alive[lane, segment] = {found for portion in portions for found in portion}
        return number in self._alive[lane, segment]


def owner_of(journal: Journal, key: str) -> tuple[str, int] | None:
    """Lane and number of the job a key was noted for; None if it is not noted."""
    try:
        lane, _, number = os.readlink(journal.path(key)).rpartition("/")  # noqa: PTH115
    except OSError:
        # Not there; or there and no note of ours, which then notes nothing.
        return None
    return (lane, int(number)) if lane and number.isdecimal() else None
