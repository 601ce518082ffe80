"""Selections: reads the selected jobs, and retries, cancels, releases or prunes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longshore.job import Attempt, Job, JobName, number_of
from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import read
from longshore.media.directory.files.layout import (
    STATES,
    JobPlace,
    Slot,
    finished,
    key_of,
    microseconds,
    pending,
    place_of,
)
from longshore.media.directory.files.moved_jobs import MovedJobs
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops.heartbeats import Workers
from longshore.media.directory.ops.submit import owner_of
from longshore.queue import Selection
from longshore.stored import JsonObject

ALL_SLOTS = frozenset(Slot)


class JobSelector:
    """Finds the jobs that match a selection."""

    def __init__(self, journal: Journal, workers: Workers, selection: Selection, now: float) -> None:
        self._journal = journal
        self._workers = workers
        self._selection = selection
        self._now = now
        ids = selection.ids
        self._numbers = None if ids is None else frozenset(number_of(each) for each in ids)

    def page(self, after: int, limit: int) -> list[Job]:
        """Return up to `limit` selected jobs with a number above `after`, oldest first.

        Other processes move files while the folders are read. Afterwards every job that moved meanwhile is read again
        at the path that the journal gives, so that none is missed and none is returned twice.
        """
        while True:
            with self._journal.track_moves() as tracked:
                found, last = self._read_page(after, limit)
                while (moved := self._moved(tracked)) is not None and moved:
                    for number, path in moved.items():
                        if number > after and (last is None or number <= last):
                            found.pop(number, None)
                            job = self._job(path) if path is not None else None
                            if job is not None:
                                found[number] = job
                if moved is None:
                    continue
            if found or last is None:
                return [found[number] for number in sorted(found)][:limit]
            after = last

    def paths(self, head: JournalHead, slots: frozenset[Slot]) -> dict[int, str]:
        """Return the paths of the selected jobs in these slots, by number."""
        found: dict[int, str] = {}
        for portion in listing.by_segment(self._journal, self._lanes(head), self._slots() & slots, 0, self._numbers):
            found.update((number, path) for number, path in portion.items() if self._content_fits(path))
        return found

    def matches(self, path: str) -> bool:
        """Return whether the job at this path is selected."""
        place = place_of(path)
        if place is None or place.slot not in self._slots() or place.lane not in self._lanes(self._journal.head):
            return False
        if self._numbers is not None and place.file.number not in self._numbers:
            return False
        return self._content_fits(path)

    def _content_fits(self, path: str) -> bool:
        # Read the file only if the selection needs something that its path does not contain.
        if self._selection.error is None and self._selection.older_than is None:
            return True
        return self._job(path) is not None

    def _read_page(self, after: int, limit: int) -> tuple[dict[int, Job], int | None]:
        """Return the jobs found, and the last number that was read; None if all were read."""
        found: dict[int, Job] = {}
        head = self._journal.catch_up()
        for portion in listing.by_segment(self._journal, self._lanes(head), self._slots(), after, self._numbers):
            for number, path in portion.items():
                job = self._job(path)
                if job is not None:
                    found[number] = job
                if len(found) == limit:
                    return found, number
        return found, None

    def _moved(self, tracked: MovedJobs) -> dict[int, str | None] | None:
        """Return the jobs that moved since the last call; None if entries were missed."""
        self._journal.catch_up()
        moved, tracked.moved = tracked.moved, {}
        return None if tracked.lost else moved

    def _job(self, path: str) -> Job | None:
        """Return the job at this path; None if it is not selected or gone."""
        place = place_of(path)
        record = None if place is None else read(self._journal.root, path)
        if place is None or record is None:
            return None
        holder = self._workers.label(place.worker) if place.slot is Slot.CLAIMED else None
        job = record.job(place, self._journal.uuid, holder)
        return job if self._selection.matches(job, self._now) else None

    def _lanes(self, head: JournalHead) -> set[str]:
        s = self._selection
        return {
            name
            for name, lane in head.lanes.items()
            if (s.run is None or lane.run == s.run)
            and (s.kinds is None or lane.kind in s.kinds)
            and (s.partitions is None or lane.partition in s.partitions)
        }

    def _slots(self) -> frozenset[Slot]:
        states = self._selection.states
        return ALL_SLOTS if states is None else frozenset(slot for slot in Slot if STATES[slot] in states)


def payloads(
    journal: Journal, workers: Workers, run: str, names: Sequence[JobName], now: float
) -> list[JsonObject | None]:
    """Return the payload of each named job of a run; None for a job that is not there."""
    return [None if job is None else job.payload for job in _named(journal, workers, run, names, now)]


def job_ids(journal: Journal, workers: Workers, run: str, names: Sequence[JobName], now: float) -> list[str | None]:
    """Return the id of each named job of a run; None for a job that is not there."""
    return [None if job is None else job.id for job in _named(journal, workers, run, names, now)]


def _named(journal: Journal, workers: Workers, run: str, names: Sequence[JobName], now: float) -> list[Job | None]:
    journal.catch_up()
    owners = (owner_of(journal, key_of(run, name.kind, name.key)) for name in names)
    ids = frozenset(str(owner[1]) for owner in owners if owner is not None)
    selector = JobSelector(journal, workers, Selection(run=run, ids=ids), now)
    found = {(job.kind, job.key): job for job in selector.page(0, len(ids))} if ids else {}
    return [found.get((name.kind, name.key)) for name in names]


def history(journal: Journal, job_id: str) -> list[Attempt]:
    """Return the failed and expired attempts of a job, oldest first."""
    number = number_of(job_id)
    if not number:
        return []
    while True:
        with journal.track_moves() as tracked:
            head = journal.catch_up()
            portions = listing.by_segment(journal, head.lanes.keys(), ALL_SLOTS, 0, frozenset({number}))
            path = next((portion[number] for portion in portions if number in portion), None)
            record = None if path is None else read(journal.root, path)
            journal.catch_up()
            if not tracked.lost and number not in tracked.moved:
                return [] if record is None else list(record.history)


def retry(journal: Journal, selector: JobSelector) -> int:
    """Make failed and cancelled jobs ready again, with their attempts reset; return how many."""

    def act(change: PendingChange, place: JobPlace, path: str) -> None:
        file = place.file._replace(attempts=0, instant=None, change=change.id)
        change.move(path, pending(place.lane, file))
        change.count(place.lane, Slot.READY, 1)

    return _change_selected(journal, selector, "retry", frozenset({Slot.FAILED, Slot.CANCELLED}), act)


def cancel(journal: Journal, selector: JobSelector, now: float) -> int:
    """Cancel pending and claimed jobs, and return how many; the holder of a claimed one loses its lease."""

    def act(change: PendingChange, place: JobPlace, path: str) -> None:
        file = place.file._replace(instant=microseconds(now), change=change.id)
        change.move(path, finished(Slot.CANCELLED, place.lane, file))
        change.count(place.lane, Slot.CANCELLED, 1)

    return _change_selected(journal, selector, "cancel", frozenset({Slot.READY, Slot.DELAYED, Slot.CLAIMED}), act)


def release(journal: Journal, selector: JobSelector) -> int:
    """Make claimed jobs ready, and return how many; their holders lose their leases."""

    def act(change: PendingChange, place: JobPlace, path: str) -> None:
        change.move(path, pending(place.lane, place.file._replace(change=change.id)))
        change.count(place.lane, Slot.READY, 1)

    return _change_selected(journal, selector, "release", frozenset({Slot.CLAIMED}), act)


def prune(journal: Journal, selector: JobSelector) -> int:
    """Remove finished jobs with their results and histories, and return how many."""
    keys: dict[str, str | None] = {}

    def act(change: PendingChange, place: JobPlace, path: str) -> None:
        del place
        if path not in keys:
            record = read(journal.root, path)
            keys[path] = None if record is None else key_of(record.run, record.kind, record.key)
        change.remove(path)
        change.free_keys()

    number = _change_selected(journal, selector, "prune", frozenset({Slot.COMPLETED, Slot.FAILED, Slot.CANCELLED}), act)
    for path, key in keys.items():
        place = place_of(path)
        if key is not None and place is not None:
            _remove_key(journal, key, (place.lane, place.file.number))
    return number


def _change_selected(
    journal: Journal,
    selector: JobSelector,
    what: str,
    slots: frozenset[Slot],
    act: Callable[[PendingChange, JobPlace, str], None],
) -> int:
    """Change all selected jobs in one change, and return how many. Reads the folders once, then follows the moves."""
    found: dict[int, str] | None = None
    with journal.track_moves() as tracked:

        def decide(change: PendingChange, head: JournalHead) -> int:
            nonlocal found
            if found is None or tracked.lost:
                tracked.lost, tracked.moved = False, {}
                found = selector.paths(head, slots)
            else:
                moved, tracked.moved = tracked.moved, {}
                for number, path in moved.items():
                    found.pop(number, None)
                    place = None if path is None else place_of(path)
                    if path is not None and place is not None and place.slot in slots and selector.matches(path):
                        found[number] = path
            number = 0
            for path in found.values():
                place = place_of(path)
                if place is not None:
                    act(change, place, path)
                    change.count(place.lane, place.slot, -1)
                    number += 1
            return number

        return journal.transact(what, decide)


def _remove_key(journal: Journal, key: str, owner: tuple[str, int]) -> None:
    """Remove the record of a key whose job is gone. Such a record has no effect; removing it only saves space.

    The record is moved first and read again after the move: if the key was recorded for a new job meanwhile, it is
    put back.
    """
    moved = journal.path(f"trash/{key.replace('/', '.')}.{owner[1]}")
    if owner_of(journal, key) != owner or not disk.move(journal.path(key), moved):
        return
    if owner_of(journal, moved.removeprefix(f"{journal.root}/")) == owner:
        disk.remove(moved)
    else:
        disk.move(moved, journal.path(key))
