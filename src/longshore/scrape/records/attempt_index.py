"""The stored attempts of a run, and those of them that count: the queue that is read decides.

An attempt has a name that is valid in all queues (decision 12), and a completed job knows the names of the attempt that
completed it. Attempts that an earlier version stored have no queue; they are found by the id of their job. If a job has
another id because an earlier version copied or moved it, such an attempt counts if it was marked as settled and was
written after the job was submitted: an older one belongs to a former life of the job.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from longshore.extensions.record_store import StoredAttempt
from longshore.job import Job


class _Found(NamedTuple):
    revision: int
    at: float
    place: int


# A packed entry takes a third of the memory; there is one for each attempt.
_PACKED = struct.Struct("<IdQ")


class AttemptIndex:
    """Finds the place of the attempt that completed a job. Keeps one small entry per attempt in memory."""

    def __init__(self) -> None:
        self._named: dict[bytes, bytes] = {}
        self._older: dict[bytes, bytes] = {}

    def add(self, attempt: StoredAttempt, place: int) -> None:
        """Add an attempt. Of several with the same name, the highest revision counts, then the one written last."""
        name = (attempt.run, attempt.kind, attempt.key)
        _put(self._named, _digest(*name, attempt.queue, attempt.job, attempt.epoch), attempt, place)
        if attempt.marked and not attempt.queue:
            _put(self._older, _digest(*name, attempt.epoch), attempt, place)

    def place_of(self, job: Job) -> int | None:
        """Return the place of the attempt that completed this job; None if it emitted nothing, or elsewhere."""
        name = (job.run, job.kind, job.key)
        for queue, job_id, epoch in job.completed_by:
            for named in (queue, ""):
                if (packed := self._named.get(_digest(*name, named, job_id, epoch))) is not None:
                    return _Found(*_PACKED.unpack(packed)).place
        if self._older and (packed := self._older.get(_digest(*name, job.epoch))) is not None:
            found = _Found(*_PACKED.unpack(packed))
            if found.at >= job.submitted_at:
                return found.place
        return None


def _put(entries: dict[bytes, bytes], digest: bytes, attempt: StoredAttempt, place: int) -> None:
    found = _Found(attempt.revision, attempt.at, place)
    if (packed := entries.get(digest)) is None or found[:2] >= _PACKED.unpack(packed)[:2]:
        entries[digest] = _PACKED.pack(*found)


def _digest(*parts: str | int) -> bytes:
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=16).digest()
