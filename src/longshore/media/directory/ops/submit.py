"""Jobs that arrive, new or from another queue: numbered in the order of their arrival, each key once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from longshore.extensions.transfer import Carried
from longshore.job import NewJob, State
from longshore.media.directory.files import listing
from longshore.media.directory.files.job_file import JobFile, carried_record, descended, encode, new_record
from longshore.media.directory.files.layout import (
    FINISHED,
    SEGMENT,
    JobFileName,
    Slot,
    finished,
    host_of,
    key_of,
    microseconds,
    pending,
    segment_of,
    short,
)
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange

_NOT_READY = frozenset(Slot) - {Slot.READY}


class Arrival(NamedTuple):
    """A job that wants in: what is written of it, and where it will lie, but for its number."""

    record: JobFile
    slot: Slot
    file: JobFileName

    @classmethod
    def new(cls, job: NewJob, now: float) -> Arrival:
        """A job that was never anywhere. Raises where it cannot be stored."""
        due = microseconds(job.not_before) if job.not_before is not None and job.not_before > now else None
        slot = Slot.READY if due is None else Slot.DELAYED
        return cls(new_record(job, now), slot, JobFileName(0, job.priority, 0, 0, due, host_of(job.host)))

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
        file = JobFileName(0, job.priority, job.epoch, job.attempts, instant, host_of(job.host))
        return cls(carried_record(carried), slot, file)


class Arrivals:
    """Jobs that want in. Made ready at once, so that a batch that cannot be stored leaves nothing behind."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        self._contents = [encode(each.record) for each in arrivals]
        self._keys = [key_of(each.record.run, each.record.kind, each.record.key) for each in arrivals]
        self._staged: dict[int, str] = {}

    def descend(self, which: Iterable[int], parent: JobFile) -> None:
        """Write down that some of them come from that job. Called before they are put into a draft."""
        for place in which:
            self._contents[place] = encode(descended(self._arrivals[place].record, parent))

    def join(
        self, journal: Journal, draft: PendingChange, head: JournalHead, which: Iterable[int] | None = None
    ) -> int:
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
            draft.note_key(self._keys[place], f"{lane}/{file.number}/{short(file.host)}")
            target = finished(slot, lane, file) if slot in FINISHED else pending(lane, file)
            draft.move(self._staged[place], target)
            draft.count(lane, slot, 1)
        return len(new)


class _Noted:
    """Keys that are noted, and whether the jobs they were noted for are still there."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._alive: dict[tuple[str, str, frozenset[Slot] | str], set[int]] = {}

    def is_there(self, key: str) -> bool:
        """Whether the key is noted at all."""
        return os.path.lexists(self._journal.path(key))

    def is_taken(self, key: str) -> bool:
        """Whether the job the key was noted for is in the queue."""
        noted = _noted(self._journal, key)
        if noted is None:
            return False
        lane, number, host = noted
        if host is None:
            return number in self._in(lane, segment_of(number), frozenset(Slot))
        return number in self._in(lane, segment_of(number), _NOT_READY) or number in self._ready(
            lane, segment_of(number), host
        )

    def _in(self, lane: str, segment: str, slots: frozenset[Slot]) -> set[int]:
        if (lane, segment, slots) not in self._alive:
            first = int(segment) * SEGMENT
            everything = frozenset(range(first, first + SEGMENT))
            portions = listing.by_segment(self._journal, [lane], slots, first - 1, everything)
            self._alive[lane, segment, slots] = {found for portion in portions for found in portion}
        return self._alive[lane, segment, slots]

    def _ready(self, lane: str, segment: str, host: str) -> set[int]:
        """The same for ready jobs of one host, of which there may be very many."""
        if (lane, segment, host) not in self._alive:
            found = listing.ready_of_host(self._journal, lane, host, segment)
            self._alive[lane, segment, host] = set(found)
        return self._alive[lane, segment, host]


def owner_of(journal: Journal, key: str) -> tuple[str, int] | None:
    """Lane and number of the job a key was noted for; None if it is not noted."""
    noted = _noted(journal, key)
    return None if noted is None else noted[:2]


def _noted(journal: Journal, key: str) -> tuple[str, int, str | None] | None:
    """Lane, number and host of the job a key was noted for; the host as `layout.short` says it, or None in format 1."""
    try:
        lane, number, *host = os.readlink(journal.path(key)).split("/")  # noqa: PTH115
    except (OSError, ValueError):
        # Not there; or there and no note of ours, which then notes nothing.
        return None
    return (lane, int(number), host[0] if host else None) if lane and number.isdecimal() else None
