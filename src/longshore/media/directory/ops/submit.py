"""Submission and transfer of jobs: numbers them in order of arrival, and accepts each key once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from longshore.extensions.transfer import Carried
from longshore.job import NewJob, State
from longshore.media.directory.files import listing
from longshore.media.directory.files.job_file import JobFile, carried_record, encode, new_record, with_parent
from longshore.media.directory.files.layout import (
    FINISHED,
    SEGMENT,
    JobFileName,
    Slot,
    finished,
    host_hash,
    host_of,
    key_of,
    microseconds,
    pending,
    segment_of,
)
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange

_NOT_READY = frozenset(Slot) - {Slot.READY}


class Arrival(NamedTuple):
    """A job to be added: its content, slot and file name; the number is still 0."""

    record: JobFile
    slot: Slot
    file: JobFileName

    @classmethod
    def new(cls, job: NewJob, now: float) -> Arrival:
        """Return the arrival of a new job. Raises if it cannot be stored."""
        due = microseconds(job.not_before) if job.not_before is not None and job.not_before > now else None
        slot = Slot.READY if due is None else Slot.DELAYED
        return cls(new_record(job, now), slot, JobFileName(0, job.priority, 0, 0, due, host_of(job.host)))

    @classmethod
    def carried(cls, carried: Carried) -> Arrival:
        """Return the arrival of a job from another queue, in its state; a claimed one is ready here.

        Raises if it cannot be stored.
        """
        job, instant = carried.job, None
        match job.state:
            case State.PENDING if job.not_before is not None:
                # Delayed even if it is due: only the name of a delayed job contains the instant.
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
    """The jobs that one call adds. The constructor encodes them all, so that it raises before anything is written."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        self._contents = [encode(each.record) for each in arrivals]
        self._keys = [key_of(each.record.run, each.record.kind, each.record.key) for each in arrivals]
        self._staged: dict[int, str] = {}

    def set_parent(self, which: Iterable[int], parent: JobFile) -> None:
        """Set the parent of some of the jobs. Call it before `add_to`."""
        for place in which:
            self._contents[place] = encode(with_parent(self._arrivals[place].record, parent))

    def add_to(
        self, journal: Journal, change: PendingChange, head: JournalHead, which: Iterable[int] | None = None
    ) -> int:
        """Add the jobs whose keys are new to the change, in order. Return how many."""
        recorded = _RecordedKeys(journal)
        new = []
        for place in range(len(self._arrivals)) if which is None else which:
            key = self._keys[place]
            if key not in change.keys and not (recorded.is_taken(key) if head.freed_keys else recorded.is_there(key)):
                change.keys.add(key)
                new.append(place)
        unstaged = [place for place in new if place not in self._staged]
        paths = change.stage([self._contents[place] for place in unstaged])
        self._staged.update(zip(unstaged, paths, strict=True))
        for place in new:
            record, slot, file = self._arrivals[place]
            file = file._replace(number=change.numbers, change=change.id)
            change.numbers += 1
            lane = change.lane(head, record.run, record.kind, record.partition)
            change.record_key(self._keys[place], f"{lane}/{file.number}/{host_hash(file.host)}")
            target = finished(slot, lane, file) if slot in FINISHED else pending(lane, file)
            change.move(self._staged[place], target)
            change.count(lane, slot, 1)
        return len(new)


class _RecordedKeys:
    """The recorded keys, and whether their jobs still exist."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._alive: dict[tuple[str, str, frozenset[Slot] | str, bool], set[int]] = {}

    def is_there(self, key: str) -> bool:
        """Return whether the key is recorded, even for a job that is gone."""
        return os.path.lexists(self._journal.path(key))

    def is_taken(self, key: str) -> bool:
        """Return whether the job that the key was recorded for is in the queue."""
        recorded = _recorded(self._journal, key)
        if recorded is None:
            return False
        if self._is_alive(*recorded):
            return True
        # An outdated listing may hide the job, and its key would be accepted twice.
        with listing.fresh(self._journal):
            return self._is_alive(*recorded)

    def _is_alive(self, lane: str, number: int, host: str | None) -> bool:
        if host is None:
            return number in self._in(lane, segment_of(number), frozenset(Slot))
        return number in self._in(lane, segment_of(number), _NOT_READY) or number in self._ready(
            lane, segment_of(number), host
        )

    def _in(self, lane: str, segment: str, slots: frozenset[Slot]) -> set[int]:
        place = lane, segment, slots, self._journal.lists_fresh
        if place not in self._alive:
            first = int(segment) * SEGMENT
            everything = frozenset(range(first, first + SEGMENT))
            portions = listing.by_segment(self._journal, [lane], slots, first - 1, everything)
            self._alive[place] = {found for portion in portions for found in portion}
        return self._alive[place]

    def _ready(self, lane: str, segment: str, host: str) -> set[int]:
        """Like `_in`, for the ready jobs of one host; the hosts may be too many to list all."""
        place = lane, segment, host, self._journal.lists_fresh
        if place not in self._alive:
            self._alive[place] = set(listing.ready_of_host(self._journal, lane, host, segment))
        return self._alive[place]


def owner_of(journal: Journal, key: str) -> tuple[str, int] | None:
    """Return lane and number of the job that a key was recorded for; None if it is not recorded."""
    recorded = _recorded(journal, key)
    return None if recorded is None else recorded[:2]


def _recorded(journal: Journal, key: str) -> tuple[str, int, str | None] | None:
    """Return lane, number and host (a `layout.host_hash`, None in format 1) of the job that a key was recorded for."""
    try:
        lane, number, *host = os.readlink(journal.path(key)).split("/")  # noqa: PTH115
    except (OSError, ValueError):
        # Missing, or not a link that Longshore wrote: the key is not recorded.
        return None
    return (lane, int(number), host[0] if host else None) if lane and number.isdecimal() else None
