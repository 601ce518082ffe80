"""Claims: the most urgent ready jobs over all lanes that match, renamed into the worker's folder in one change."""

from __future__ import annotations

import os
from collections import Counter
from heapq import merge

from longshore.lease import Lease, Want
from longshore.media.directory import listing
from longshore.media.directory.aside import NO_NAME, set_aside
from longshore.media.directory.draft import Draft
from longshore.media.directory.entry import Head, Lane
from longshore.media.directory.journal import Journal
from longshore.media.directory.layout import Place, Slot, file_of, key_of, minute_of, pending, processing
from longshore.media.directory.record import DamagedError, Record, read
from longshore.media.directory.submit import owner_of

PROMOTED_AT_ONCE = 5000
"""Delayed jobs that become ready in one change; a million due at once must not stop everyone else."""


class Claim:
    """One claim in the making."""

    def __init__(self, journal: Journal, want: Want, worker: str, deadline: float) -> None:
        self._journal = journal
        self._want = want
        self._worker = worker
        self._deadline = deadline
        self._read: dict[str, Record] = {}
        """What was read already. A path is never used twice, so it holds even after another change came first."""

    def decide(self, draft: Draft, head: Head) -> list[Lease]:
        """Choose, and put the moves into the draft."""
        leases: list[Lease] = []
        lanes = [name for name, lane in head.lanes.items() if lane.counts[Slot.READY] and _wanted(self._want, lane)]
        there: Counter[str] = Counter()
        streams = [listing.ready(self._journal, lane) for lane in lanes]
        for _, number, lane, path in merge(*streams):
            if len(leases) == self._want.limit:
                return leases
            file = file_of(path.rpartition("/")[2])
            if file is None:
                set_aside(self._journal.root, path, NO_NAME)
                continue
            record = self._record(path, lane, number)
            if record is None:
                continue
            there[lane] += 1
            taken = file._replace(epoch=file.epoch + 1, instant=None, change="")
            draft.move(path, processing(self._worker, lane, taken))
            draft.count(lane, Slot.READY, -1)
            draft.count(lane, Slot.CLAIMED, 1)
            job = record.job(Place(Slot.CLAIMED, lane, taken), self._want.worker.label)
            leases.append(Lease(job, self._want.worker, self._deadline))
        if len(leases) < self._want.limit:
            # All there was has been seen. Where a person took files away, the counters learn of it here.
            for lane in lanes:
                if missing := head.lanes[lane].counts[Slot.READY] - there[lane]:
                    draft.count(lane, Slot.READY, -missing)
        return leases

    def _record(self, path: str, lane: str, number: int) -> Record | None:
        """The content of a job's file; None if it is not there any more."""
        if path not in self._read:
            record = read(self._journal.root, path)
            if record is None:
                return None
            owner = owner_of(self._journal, key_of(record.run, record.kind, record.key))
            # A note that is lost is no reason to lose the job as well.
            if owner is not None and owner != (lane, number):
                raise DamagedError(path, "It is a copy of a job's file, or was renamed: its job has another number.")
            self._read[path] = record
        elif not os.path.lexists(self._journal.path(path)):
            return None
        return self._read[path]


def can_take(head: Head, want: Want) -> bool:
    """Whether a claim would find something, as far as the counters tell."""
    return any(lane.counts[Slot.READY] > 0 and _wanted(want, lane) for lane in head.lanes.values())


def next_due(journal: Journal, want: Want | None = None) -> float | None:
    """When the next delayed job becomes ready; None if none is delayed. The journal must be caught up."""
    instants = [
        _due(journal, name)
        for name, lane in journal.head.lanes.items()
        if lane.counts[Slot.DELAYED] and (want is None or _wanted(want, lane))
    ]
    return min((instant for instant in instants if instant is not None), default=None)


def promote(journal: Journal, now: float) -> None:
    """Make delayed jobs ready whose time has come."""

    def decide(draft: Draft, head: Head) -> bool:
        left = PROMOTED_AT_ONCE
        for lane in [name for name, lane in head.lanes.items() if lane.counts[Slot.DELAYED]]:
            due = _due(journal, lane)
            if due is None or due > now:
                continue
            for file, path in listing.delayed(journal, lane):
                if left == 0:
                    return False
                if file.instant is not None and file.instant <= now * 1e6:
                    draft.move(path, pending(lane, file._replace(instant=None, change=draft.id)))
                    draft.count(lane, Slot.DELAYED, -1)
                    draft.count(lane, Slot.READY, 1)
                    left -= 1
                elif file.instant is not None and minute_of(file.instant) > minute_of(int(now * 1e6)):
                    break
        return True

    journal.look()
    while any(lane.counts[Slot.DELAYED] for lane in journal.head.lanes.values()):
        journal.catch_up()
        due = next_due(journal)
        if due is None or due > now or journal.transact("promote", decide):
            return


def _due(journal: Journal, lane: str) -> float | None:
    if lane not in journal.due:
        instants: list[int] = []
        for file, _ in listing.delayed(journal, lane):
            # The files of one minute come together, and those of the next are later than all of them.
            if file.instant is None or (instants and minute_of(file.instant) != minute_of(instants[0])):
                break
            instants.append(file.instant)
        journal.due[lane] = min(instants) / 1e6 if instants else None
    return journal.due[lane]


def _wanted(want: Want, lane: Lane) -> bool:
    return want.matches(lane.run, lane.kind, lane.partition)
