"""Jobs that arrive, new or from another queue: numbered in the order of their arrival, each key once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from longshore.job import NewJob, State
from longshore.media.directory import listing
from longshore.media.directory.draft import Draft
from longshore.media.directory.entry import Head
from longshore.media.directory.journal import Journal
from longshore.media.directory.layout import FINISHED, File, Slot, finished, key_of, microseconds, pending, segment_of
from longshore.media.directory.record import Record, carried_record, descended, encode, new_record
from longshore.transfer import Carried


class Arrival(NamedTuple):
    """A job that wants in: what is written of it, and where it will lie, but for its number."""

    record: Record
    slot: Slot
    file: File

    @classmethod
    def new(cls, job: NewJob, now: float) -> Arrival:
        """A job that was never anywhere. Raises where it cannot be stored."""
        due = microseconds(job.not_before) if job.not_before is not None and job.not_before > now else None
        slot = Slot.READY if due is None else Slot.DELAYED
        return cls(new_record(job, now), slot, File(0, job.priority, 0, 0, due))

    @classmethod
    def carried(cls, carried: Carried) -> Arrival:
        """A job of another queue, as it was there; but nobody holds it here. Raises where it cannot be stored."""
        job, instant = carried.job, None
        match job.state:
            case State.PENDING if job.not_before is not None:
                # Among the delayed even if it is due: only there does the name tell the instant.
                slot, instant = Slot.DELAYED, microseconds(job.not_before)
            case State.PENDING | State.CLAIMED:
                slot = Slot.READY
            case State.CANCELLED:
                slot, instant = Slot.CANCELLED, microseconds(job.settled_at or 0.0)
            case State.COMPLETED:
                slot = Slot.COMPLETED
            case State.FAILED:
                slot = Slot.FAILED
        return cls(carried_record(carried), slot, File(0, job.priority, job.epoch, job.attempts, instant))


class Arrivals:
    """Jobs that want in. Made ready at once, so that a batch that cannot be stored leaves nothing behind."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        self._contents = [encode(each.record) for each in arrivals]
        self._keys = [key_of(each.record.run, each.record.kind, each.record.key) for each in arrivals]
        self._staged: dict[int, str] = {}

    def descend(self, which: Iterable[int], parent: Record) -> None:
        """Write down that some of them come from that job. Called before they are put into a draft."""
        for place in which:
            self._contents[place] = encode(descended(self._arrivals[place].record, parent))

    def join(self, journal: Journal, draft: Draft, head: Head, which: Iterable[int] | None = None) -> int:
        """Put those of the jobs into the draft that are new, in their order. Returns how many."""
        noted = _Noted(journal)
        new = []
        for place in range(len(self._arrivals)) if which is None else which:
            key = self._keys[place]
            if key not in draft.keys and not (noted.is_taken(key) if head.freed_keys else noted.is_there(key)):
                draft.keys.add(key)
                new.append(place)
        unstaged = [place for place in new if place not in self._staged]
        paths = draft.stage([self._contents[place] for place in unstaged])
        self._staged.update(zip(unstaged, paths, strict=True))
        for place in new:
            record, slot, file = self._arrivals[place]
            file = file._replace(number=draft.numbers, change=draft.id)
            draft.numbers += 1
            lane = draft.lane(head, record.run, record.kind, record.partition)
            draft.note_key(self._keys[place], lane, file.number)
            target = finished(slot, lane, file) if slot in FINISHED else pending(lane, file)
            draft.move(self._staged[place], target)
            draft.count(lane, slot, 1)
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
