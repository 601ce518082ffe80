"""Claims: the most urgent ready jobs of all matching lanes, hosts in turn, moved to the worker in one change."""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import TypeVar

from longshore.lease import Lease, Want
from longshore.media.directory.files import listing
from longshore.media.directory.files.job_file import DamagedError, JobFile, read
from longshore.media.directory.files.layout import (
    JobFileName,
    JobPlace,
    Slot,
    file_of,
    host_of,
    key_of,
    minute_of,
    pending,
    processing,
)
from longshore.media.directory.files.quarantine import NO_NAME, move_to_rejected
from longshore.media.directory.journal.entry import JournalHead, LaneCounts
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops import host_turns
from longshore.media.directory.ops.host_turns import HostTurn
from longshore.media.directory.ops.submit import owner_of

T = TypeVar("T")

PROMOTED_AT_ONCE = 5000
"""Delayed jobs that become ready in one change; a million due at once must not block other processes."""


class ClaimSearch:
    """The search for the jobs of one claim."""

    def __init__(self, journal: Journal, want: Want, worker: str, deadline: float, last: HostTurn) -> None:
        self._journal = journal
        self._want = want
        self._excluded = frozenset(host_of(host) for host in want.without_hosts)
        self._worker = worker
        self._deadline = deadline
        self._start = last
        self._read: dict[str, JobFile] = {}
        """Contents by path. A path is never used twice, so they stay valid when another change came first."""
        self.miscounted: set[str] = set()
        """The lanes that have more or fewer ready jobs than they count, as far as the listings show; after `decide`."""

    def decide(self, change: PendingChange, head: JournalHead) -> list[Lease]:
        """Choose the jobs and add their moves to the change."""
        self._host: str | None = None
        self.miscounted = set()
        if not self._want.limit:
            return []
        leases: list[Lease] = []
        lanes = [name for name, lane in head.lanes.items() if lane.counts[Slot.READY] and _wanted(self._want, lane)]
        taken: Counter[str] = Counter()
        excluded_lanes: set[str] = set()
        for path, place, record in self._candidates(lanes, excluded_lanes):
            taken[place.lane] += 1
            change.move(path, processing(self._worker, place.lane, place.file))
            self._journal.emptied.add(path.rpartition("/")[0])
            job = record.job(place, self._journal.uuid, self._want.worker.label)
            leases.append(Lease(job, self._want.worker, self._deadline))
            if len(leases) == self._want.limit:
                break
        else:
            # Every ready job was seen, unless the listings are outdated.
            self.miscounted = {
                lane for lane in set(lanes) - excluded_lanes if head.lanes[lane].counts[Slot.READY] != taken[lane]
            }
        for lane, number in taken.items():
            change.count(lane, Slot.READY, -number)
            change.count(lane, Slot.CLAIMED, number)
        return leases

    @property
    def last(self) -> HostTurn:
        """The host that had the last turn; valid after `decide`."""
        return self._start if self._host is None else HostTurn.of(self._host)

    def _candidates(self, lanes: Sequence[str], excluded_lanes: set[str]) -> Iterator[tuple[str, JobPlace, JobFile]]:
        """Yield all claimable jobs in claim order; adds the lanes with jobs of excluded hosts to `excluded_lanes`."""
        levels: defaultdict[int, list[str]] = defaultdict(list)
        for lane in lanes:
            for priority in listing.priorities(self._journal, lane):
                levels[priority].append(lane)
        for priority in sorted(levels):
            waiting: deque[tuple[str, Iterator[tuple[str, JobPlace, JobFile]]]] = deque()
            for host, line in chain(
                self._host_candidates(priority, levels[priority], excluded_lanes), _popped(waiting)
            ):
                if (found := next(line, None)) is not None:
                    self._host = host
                    yield found
                    waiting.append((host, line))

    def _host_candidates(
        self, priority: int, lanes: Sequence[str], excluded_lanes: set[str]
    ) -> Iterator[tuple[str, Iterator[tuple[str, JobPlace, JobFile]]]]:
        for host, found_in in host_turns.hosts_after(self._journal, lanes, priority, self._start):
            if host in self._excluded:
                excluded_lanes.update(found_in)
            else:
                yield host, self._candidates_of_host(priority, host, found_in)

    def _candidates_of_host(
        self, priority: int, host: str, lanes: Sequence[str]
    ) -> Iterator[tuple[str, JobPlace, JobFile]]:
        """Yield the claimable jobs of one host, oldest first: path, place after the claim, and content."""
        lines = [listing.ready(self._journal, lane, priority, host) for lane in lanes]
        for number, lane, path in lines[0] if len(lines) == 1 else merge(*lines):
            file = file_of(path.rpartition("/")[2])
            if file is None:
                move_to_rejected(self._journal.root, path, NO_NAME)
                continue
            record = self._record(path, lane, number)
            if record is None:
                continue
            if not host_of(record.host) == file.host == host:
                raise DamagedError(path, "It was renamed or moved: its job has another host.")
            taken = JobFileName(file.number, file.priority, file.epoch + 1, file.attempts, None, host)
            yield path, JobPlace(Slot.CLAIMED, lane, taken), record

    def _record(self, path: str, lane: str, number: int) -> JobFile | None:
        """Return the content of a job's file; None if it is gone."""
        if path not in self._read:
            record = read(self._journal.root, path)
            if record is None:
                return None
            owner = owner_of(self._journal, key_of(record.run, record.kind, record.key))
            # A job whose key record is lost (no owner) is still claimed.
            if owner is not None and owner != (lane, number):
                raise DamagedError(path, "It is a copy of a job's file, or was renamed: its job has another number.")
            self._read[path] = record
        elif not os.path.lexists(self._journal.path(path)):
            return None
        return self._read[path]


def can_take(journal: Journal, want: Want) -> bool:
    """Return whether a claim would find a job: by the counters, and if hosts are excluded, by the folders of hosts."""
    lanes = [name for name, lane in journal.head.lanes.items() if lane.counts[Slot.READY] > 0 and _wanted(want, lane)]
    if not lanes or not want.without_hosts:
        return bool(lanes)
    journal.catch_up()
    excluded = frozenset(host_of(host) for host in want.without_hosts)
    return any(
        next(listing.ready(journal, lane, priority, host), None) is not None
        for lane in lanes
        for priority, host in listing.priority_hosts(journal, lane)
        if host not in excluded
    )


def next_due(journal: Journal, want: Want | None = None) -> float | None:
    """Return when the next delayed job becomes ready; None if no job is delayed. Call `journal.catch_up` first."""
    instants = [
        _due(journal, name)
        for name, lane in journal.head.lanes.items()
        if lane.counts[Slot.DELAYED] and (want is None or _wanted(want, lane))
    ]
    return min((instant for instant in instants if instant is not None), default=None)


def promote(journal: Journal, now: float) -> None:
    """Make the delayed jobs ready that are due."""

    def decide(change: PendingChange, head: JournalHead) -> bool:
        left = PROMOTED_AT_ONCE
        for lane in [name for name, lane in head.lanes.items() if lane.counts[Slot.DELAYED]]:
            due = _due(journal, lane)
            if due is None or due > now:
                continue
            for file, path in listing.delayed(journal, lane):
                if left == 0:
                    return False
                if file.instant is not None and file.instant <= now * 1e6:
                    change.move(path, pending(lane, file._replace(instant=None, change=change.id)))
                    change.count(lane, Slot.DELAYED, -1)
                    change.count(lane, Slot.READY, 1)
                    left -= 1
                elif file.instant is not None and minute_of(file.instant) > minute_of(int(now * 1e6)):
                    break
        return True

    journal.refresh()
    while any(lane.counts[Slot.DELAYED] for lane in journal.head.lanes.values()):
        journal.catch_up()
        due = next_due(journal)
        if due is None or due > now or journal.transact("promote", decide):
            return


def _due(journal: Journal, lane: str) -> float | None:
    if lane not in journal.due:
        instants: list[int] = []
        for file, _ in listing.delayed(journal, lane):
            # Files come minute by minute, so the earliest instant is in the first minute.
            if file.instant is None or (instants and minute_of(file.instant) != minute_of(instants[0])):
                break
            instants.append(file.instant)
        if not instants:
            # Not remembered: the lane counts delayed jobs, so the listing may be outdated.
            return None
        journal.due[lane] = min(instants) / 1e6
    return journal.due[lane]


def _popped(waiting: deque[T]) -> Iterator[T]:
    """Yield and remove items from the left, including items that are appended meanwhile."""
    while waiting:
        yield waiting.popleft()


def _wanted(want: Want, lane: LaneCounts) -> bool:
    return want.matches(lane.run, lane.kind, lane.partition)
