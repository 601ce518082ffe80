"""Settlements: each is guarded by the path of its lease; a batch with its results and follow-on jobs is one change.

The path of a claimed job contains worker, number and epoch. The path of a stale lease does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from longshore.errors import CrashedError, Failure
from longshore.job import Attempt, NewJob, number_of
from longshore.lease import Lease
from longshore.media.directory.files.job_file import JobFile, check_failure, encode, raw, read
from longshore.media.directory.files.layout import (
    JobFileName,
    Slot,
    finished,
    host_of,
    lane_of,
    microseconds,
    pending,
    place_of,
    processing,
    worker_of,
)
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops.submit import Arrival, Arrivals
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import SettleAnswers


class SettleVerdict(msgspec.Struct, frozen=True):
    """The result of settling one claimed job: its new slot and file name, and its new content if that changes."""

    slot: Slot
    file: JobFileName
    record: JobFile | None = None


class SettleBatch:
    """The settlements of one call. The constructor raises if one cannot be stored, before anything is written."""

    def __init__(self, journal: Journal, settlements: Sequence[Settlement], now: float) -> None:
        self._journal = journal
        self._settlements = [msgspec.structs.replace(each, outcome=_storable(each.outcome)) for each in settlements]
        self._now = now
        self._paths = [_path_of(each.lease) for each in settlements]
        jobs: list[NewJob] = []
        self._follow_ons: list[range] = []
        for each in settlements:
            own = each.outcome.jobs if isinstance(each.outcome, Completed) else ()
            self._follow_ons.append(range(len(jobs), len(jobs) + len(own)))
            jobs += [msgspec.structs.replace(job, run=each.lease.job.run) for job in own]
        self._arrivals = Arrivals([Arrival.new(job, now) for job in jobs])
        self._verdicts: dict[int, SettleVerdict] = {}
        self._staged: dict[int, str] = {}

    def decide(self, change: PendingChange, head: JournalHead) -> list[bool]:
        """Add the settlements whose leases are still held to the change; return which were accepted."""
        taken: set[str] = set()
        accepted = []
        for place, path in enumerate(self._paths):
            good = path is not None and path not in taken and self._is_held(place, path)
            accepted.append(good)
            if good and path is not None:
                taken.add(path)
        places = [place for place, good in enumerate(accepted) if good]
        unstaged = [
            (place, encode(record))
            for place in places
            if place not in self._staged and (record := self._verdicts[place].record) is not None
        ]
        paths = change.stage([content for _, content in unstaged])
        self._staged.update(zip((place for place, _ in unstaged), paths, strict=True))
        for place in places:
            path = self._paths[place]
            assert path is not None  # noqa: S101 - only settlements with a path are accepted
            apply_verdict(change, path, self._verdicts[place], self._staged.get(place))
        follow_ons = [number for place in places for number in self._follow_ons[place]]
        added = self._arrivals.add_to(self._journal, change, head, follow_ons) if follow_ons else 0
        # Which jobs were left out is not known, only whether any was.
        return SettleAnswers(accepted, ()) if added == len(follow_ons) else accepted

    def _is_held(self, place: int, path: str) -> bool:
        if place in self._verdicts:
            return os.path.lexists(self._journal.path(path))
        record = read(self._journal.root, path)
        if record is None:
            return False
        settlement = self._settlements[place]
        file = place_of(path)
        assert file is not None  # noqa: S101 - `_path_of` made the path
        self._verdicts[place] = judge(record, file.file, settlement, settlement.lease.worker.label, self._now)
        self._arrivals.set_parent(self._follow_ons[place], record)
        return True


def judge(record: JobFile, file: JobFileName, settlement: Settlement, worker: str, now: float) -> SettleVerdict:
    """Return what an outcome does to a job."""
    match settlement.outcome:
        case Completed() as done:
            changed = msgspec.structs.replace(
                record,
                result=done.result,
                settled_at=now,
                worker=worker,
                seconds=settlement.seconds,
                failure=None,
                came_from=settlement.came_from or record.came_from,
                handler_version=settlement.handler_version,
            )
            return SettleVerdict(Slot.COMPLETED, file._replace(attempts=file.attempts + 1), changed)
        case Failed() as failed:
            return fail(record, file, failed, worker, settlement.seconds, now)
        case Snoozed() as snoozed:
            return _pending_again(file, snoozed.delay, now, None)
        case Released():
            return _pending_again(file, timedelta(0), now, None)


def fail(
    record: JobFile, file: JobFileName, failed: Failed, worker: str, seconds: float | None, now: float
) -> SettleVerdict:
    """Return what a failed attempt does to a job: a retry or the final failure."""
    limit = failed.max_attempts or record.max_attempts
    file = file._replace(attempts=file.attempts + 1)
    attempt = Attempt(epoch=file.epoch, worker=worker, ended_at=now, failure=failed.failure, seconds=seconds)
    changed = msgspec.structs.replace(
        record, max_attempts=limit, failure=failed.failure, history=(*record.history, attempt)
    )
    if failed.failure.retryable and file.attempts < limit:
        return _pending_again(file, failed.retry_in, now, changed)
    return SettleVerdict(
        Slot.FAILED, file, msgspec.structs.replace(changed, settled_at=now, worker=worker, seconds=seconds)
    )


def expire(record: JobFile, file: JobFileName, label: str, now: float) -> SettleVerdict:
    """Return what an expired lease does to a job."""
    failure = Failure.of(CrashedError(f"worker {label} went silent and its lease expired"))
    return fail(record, file, Failed(failure), label, None, now)


def apply_verdict(change: PendingChange, path: str, verdict: SettleVerdict, staged: str | None) -> None:
    """Add the verdict on the claimed job at `path` to the change; `staged` is its new content, if that changes."""
    place = place_of(path)
    assert place is not None  # noqa: S101 - callers pass paths of claimed jobs
    file = verdict.file._replace(change=change.id)
    pended = verdict.slot in {Slot.READY, Slot.DELAYED}
    target = pending(place.lane, file) if pended else finished(verdict.slot, place.lane, file)
    if staged is None:
        change.move(path, target)
    else:
        change.move(staged, target)
        change.remove(path)
    change.count(place.lane, Slot.CLAIMED, -1)
    change.count(place.lane, verdict.slot, 1)


def _pending_again(file: JobFileName, delay: timedelta, now: float, record: JobFile | None) -> SettleVerdict:
    if delay <= timedelta(0):
        return SettleVerdict(Slot.READY, file, record)
    return SettleVerdict(Slot.DELAYED, file._replace(instant=microseconds(now + delay.total_seconds())), record)


def _path_of(lease: Lease) -> str | None:
    """Return the path that the job of a lease has while the lease is held; None for a lease of another medium."""
    job = lease.job
    if not number_of(job.id):
        return None
    worker = worker_of(lease.worker.label, lease.worker.incarnation)
    file = JobFileName(int(job.id), job.priority, job.epoch, job.attempts, host=host_of(job.host))
    return processing(worker, lane_of(job.run, job.kind, job.partition), file)


def _storable(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Failed):
        check_failure(outcome.failure)
    return Completed(raw(outcome.result, "A result"), outcome.jobs) if isinstance(outcome, Completed) else outcome
