"""The stored attempts of a run, and those of them that count: the queue that is read decides.

An attempt has a name that is valid in all queues (decision 12), and a completed job knows the names of the attempt that
completed it. Attempts that an earlier version stored have no queue; they are found by the id of their job. If a job has
another id because an earlier version copied or moved it, such an attempt counts if it was marked as settled and was
written after the job was submitted: an older one belongs to a former life of the job.
"""

from __future__ import annotations

import struct
from typing import Protocol

from longshore.job import Job


class NamedAttempt(Protocol):
    """The name and age of a stored attempt; see `StoredAttempt`."""

    @property
    def run(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def job(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def revision(self) -> int: ...
    @property
    def at(self) -> float: ...


# The revision, the time and the place. A packed entry takes a third of the memory; there is one for each attempt.
_PACKED = struct.Struct("<IdQ")


class AttemptIndex:
    """Finds the place of the attempt that completed a job. Keeps one small entry per attempt in memory."""

    def __init__(self) -> None:
        # By the hash of the name: names would take several times the memory.
        self._named: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}

    def add(self, attempt: NamedAttempt, place: int, *, marked: bool = False) -> None:
        """Add an attempt. Of several with the same name, the highest revision counts, then the one written last."""
        name = (attempt.run, attempt.kind, attempt.key)
        _put(self._named, hash((*name, attempt.queue, attempt.job, attempt.epoch)), attempt, place)
        if marked and not attempt.queue:
            _put(self._older, hash((*name, attempt.epoch)), attempt, place)

    def place_of(self, job: Job) -> int | None:
        """Return the place of the attempt that completed this job; None if it emitted nothing, or elsewhere."""
        name = (job.run, job.kind, job.key)
        for queue, job_id, epoch in job.completed_by:
            for named in (queue, ""):
                if (packed := self._named.get(hash((*name, named, job_id, epoch)))) is not None:
                    return int(_PACKED.unpack(packed)[2])
        if self._older and (packed := self._older.get(hash((*name, job.epoch)))) is not None:
            _, at, place = _PACKED.unpack(packed)
            if at >= job.submitted_at:
                return int(place)
        return None


def _put(entries: dict[int, bytes], name: int, attempt: NamedAttempt, place: int) -> None:
    age = (attempt.revision, attempt.at)
    if (packed := entries.get(name)) is None or age >= _PACKED.unpack(packed)[:2]:
        entries[name] = _PACKED.pack(*age, place)
