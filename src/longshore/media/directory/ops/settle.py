"""Settlements: each guarded by the path of its lease; a batch with its results and follow-on jobs is one change.

The path of a claimed job tells worker, number and epoch. A lease that is stale names a path where nothing lies.
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


class SettleVerdict(msgspec.Struct, frozen=True):
    """What becomes of one claimed job: where it goes, and its new content where that changes."""

    slot: Slot
    file: JobFileName
    record: JobFile | None = None


class SettleBatch:
    """Settlements in the making. Whatever cannot be stored raises at once, before anything is written."""

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

    def decide(self, draft: PendingChange, head: JournalHead) -> list[bool]:
        """Accept what is still held, and put it into the draft."""
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
        paths = draft.stage([content for _, content in unstaged])
        self._staged.update(zip((place for place, _ in unstaged), paths, strict=True))
        for place in places:
            path = self._paths[place]
            assert path is not None  # noqa: S101 - only those with a path are accepted
            put(draft, path, self._verdicts[place], self._staged.get(place))
        follow_ons = [number for place in places for number in self._follow_ons[place]]
        if follow_ons:
            self._arrivals.join(self._journal, draft, head, follow_ons)
        return accepted

    def _is_held(self, place: int, path: str) -> bool:
        if place in self._verdicts:
            return os.path.lexists(self._journal.path(path))
        record = read(self._journal.root, path)
        if record is None:
            return False
        settlement = self._settlements[place]
        file = place_of(path)
        assert file is not None  # noqa: S101 - the path was made of such a place
        self._verdicts[place] = judge(record, file.file, settlement, settlement.lease.worker.label, self._now)
        self._arrivals.descend(self._follow_ons[place], record)
        return True


def judge(record: JobFile, file: JobFileName, settlement: Settlement, worker: str, now: float) -> SettleVerdict:
    """What an outcome does to a job."""
    match settlement.outcome:
        case Completed() as done:
            changed = msgspec.structs.replace(
                record, result=done.result, settled_at=now, worker=worker, seconds=settlement.seconds, failure=None
            )
            return SettleVerdict(Slot.COMPLETED, file._replace(attempts=file.attempts + 1), changed)
        case Failed() as failed:
            return fail(record, file, failed, worker, settlement.seconds, now)
        case Snoozed() as snoozed:
            return _back(file, snoozed.delay, now, None)
        case Released():
            return _back(file, timedelta(0), now, None)


def fail(
    record: JobFile, file: JobFileName, failed: Failed, worker: str, seconds: float | None, now: float
) -> SettleVerdict:
    """An attempt that failed: again, or for good."""
    limit = failed.max_attempts or record.max_attempts
    file = file._replace(attempts=file.attempts + 1)
    attempt = Attempt(epoch=file.epoch, worker=worker, ended_at=now, failure=failed.failure, seconds=seconds)
    changed = msgspec.structs.replace(
        record, max_attempts=limit, failure=failed.failure, history=(*record.history, attempt)
    )
    if failed.failure.retryable and file.attempts < limit:
        return _back(file, failed.retry_in, now, changed)
    return SettleVerdict(
        Slot.FAILED, file, msgspec.structs.replace(changed, settled_at=now, worker=worker, seconds=seconds)
    )


def expire(record: JobFile, file: JobFileName, label: str, now: float) -> SettleVerdict:
    """An attempt whose worker went silent."""
    failure = Failure.of(CrashedError(f"worker {label} went silent and its lease expired"))
    return fail(record, file, Failed(failure), label, None, now)


def put(draft: PendingChange, path: str, verdict: SettleVerdict, staged: str | None) -> None:
    """Put what becomes of the claimed job at that path into the draft; `staged` is its new content, if it changes."""
    place = place_of(path)
    assert place is not None  # noqa: S101 - callers name files of claimed jobs
    file = verdict.file._replace(change=draft.id)
    pended = verdict.slot in {Slot.READY, Slot.DELAYED}
    target = pending(place.lane, file) if pended else finished(verdict.slot, place.lane, file)
    if staged is None:
        draft.move(path, target)
    else:
        draft.move(staged, target)
        draft.remove(path)
    draft.count(place.lane, Slot.CLAIMED, -1)
    draft.count(place.lane, verdict.slot, 1)


def _back(file: JobFileName, delay: timedelta, now: float, record: JobFile | None) -> SettleVerdict:
    if delay <= timedelta(0):
        return SettleVerdict(Slot.READY, file, record)
    return SettleVerdict(Slot.DELAYED, file._replace(instant=microseconds(now + delay.total_seconds())), record)


def _path_of(lease: Lease) -> str | None:
    """Where the job of that lease lies if it is held; None for a lease that no directory queue gave."""
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
