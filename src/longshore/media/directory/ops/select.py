"""Selections: reading jobs, and the operations on all jobs that are selected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from longshore.job import Attempt, Job, number_of
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

ALL_SLOTS = frozenset(Slot)


class JobSelector:
    """Finds the jobs that a selection means."""

    def __init__(self, journal: Journal, workers: Workers, selection: Selection, now: float) -> None:
        self._journal = journal
        self._workers = workers
        self._selection = selection
        self._now = now
        ids = selection.ids
        self._numbers = None if ids is None else frozenset(number_of(each) for each in ids)

    def page(self, after: int, limit: int) -> list[Job]:
        """Jobs that are selected, oldest first.

        Others move files while the folders are read, so afterwards every job that moved meanwhile is looked up where
        the journal says it went: none is missed, none is seen twice.
        """
        while True:
            with self._journal.trace() as trace:
                found, last = self._read_page(after, limit)
                while (moved := self._moved(trace)) is not None and moved:
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
        """Where the selected jobs lie that are in one of these slots."""
        found: dict[int, str] = {}
        for portion in listing.by_segment(self._journal, self._lanes(head), self._slots() & slots, 0, self._numbers):
            found.update((number, path) for number, path in portion.items() if self._content_fits(path))
        return found

    def means(self, path: str) -> bool:
        """Whether the job at that path is selected."""
        place = place_of(path)
        if place is None or place.slot not in self._slots() or place.lane not in self._lanes(self._journal.head):
            return False
        if self._numbers is not None and place.file.number not in self._numbers:
            return False
        return self._content_fits(path)

    def _content_fits(self, path: str) -> bool:
        # A file is read only if the selection asks for something that its path does not tell.
        if self._selection.error is None and self._selection.older_than is None:
            return True
        return self._job(path) is not None

    def _read_page(self, after: int, limit: int) -> tuple[dict[int, Job], int | None]:
        """Jobs found, and the number up to which was looked; None if to the end."""
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

    def _moved(self, trace: MovedJobs) -> dict[int, str | None] | None:
        """What moved since it was last asked; None if nobody can say."""
        self._journal.catch_up()
        moved, trace.moved = trace.moved, {}
        return None if trace.lost else moved

    def _job(self, path: str) -> Job | None:
        """The job at that path if it is selected; None if it is not, or not there any more."""
        place = place_of(path)
        record = None if place is None else read(self._journal.root, path)
        if place is None or record is None:
            return None
        job = record.job(place, self._workers.label(place.worker) if place.slot is Slot.CLAIMED else None)
        return job if selected(self._selection, job, self._now) else None

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


def history(journal: Journal, job_id: str) -> list[Attempt]:
    """The failed and expired attempts of a job, oldest first."""
    number = number_of(job_id)
    if not number:
        return []
    while True:
        with journal.trace() as trace:
            head = journal.catch_up()
            portions = listing.by_segment(journal, head.lanes.keys(), ALL_SLOTS, 0, frozenset({number}))
            path = next((portion[number] for portion in portions if number in portion), None)
            record = None if path is None else read(journal.root, path)
            journal.catch_up()
            if not trace.lost and number not in trace.moved:
                return [] if record is None else list(record.history)


def retry(journal: Journal, chooser: JobSelector) -> int:
    """Failed and cancelled jobs become ready, with all their attempts."""

    def act(draft: PendingChange, place: JobPlace, path: str) -> None:
        file = place.file._replace(attempts=0, instant=None, change=draft.id)
        draft.move(path, pending(place.lane, file))
        draft.count(place.lane, Slot.READY, 1)

    return _operate(journal, chooser, "retry", frozenset({Slot.FAILED, Slot.CANCELLED}), act)


def cancel(journal: Journal, chooser: JobSelector, now: float) -> int:
    """Pending and claimed jobs become cancelled; who held one finds it gone."""

    def act(draft: PendingChange, place: JobPlace, path: str) -> None:
        file = place.file._replace(instant=microseconds(now), change=draft.id)
        draft.move(path, finished(Slot.CANCELLED, place.lane, file))
        draft.count(place.lane, Slot.CANCELLED, 1)

    return _operate(journal, chooser, "cancel", frozenset({Slot.READY, Slot.DELAYED, Slot.CLAIMED}), act)


def prune(journal: Journal, chooser: JobSelector) -> int:
    """Finished jobs vanish, with everything that was kept of them."""
    keys: dict[str, str | None] = {}

    def act(draft: PendingChange, place: JobPlace, path: str) -> None:
        del place
        if path not in keys:
            record = read(journal.root, path)
            keys[path] = None if record is None else key_of(record.run, record.kind, record.key)
        draft.remove(path)
        draft.free_keys()

    number = _operate(journal, chooser, "prune", frozenset({Slot.COMPLETED, Slot.FAILED, Slot.CANCELLED}), act)
    for path, key in keys.items():
        place = place_of(path)
        if key is not None and place is not None:
            _forget(journal, key, (place.lane, place.file.number))
    return number


def selected(selection: Selection, job: Job, now: float) -> bool:
    """Whether a selection means this job."""
    s = selection
    age = timedelta(seconds=now - (job.settled_at or job.submitted_at))
    return (
        (s.run is None or job.run == s.run)
        and (s.ids is None or job.id in s.ids)
        and (s.kinds is None or job.kind in s.kinds)
        and (s.partitions is None or job.partition in s.partitions)
        and (s.states is None or job.state in s.states)
        and (s.older_than is None or age >= s.older_than)
        and s.matches_error(job.failure)
    )


def _operate(
    journal: Journal,
    chooser: JobSelector,
    what: str,
    slots: frozenset[Slot],
    act: Callable[[PendingChange, JobPlace, str], None],
) -> int:
    """Act on all selected jobs in one change. The folders are read once; what moves meanwhile is followed."""
    found: dict[int, str] | None = None
    with journal.trace() as trace:

        def decide(draft: PendingChange, head: JournalHead) -> int:
            nonlocal found
            if found is None or trace.lost:
                trace.lost, trace.moved = False, {}
                found = chooser.paths(head, slots)
            else:
                moved, trace.moved = trace.moved, {}
                for number, path in moved.items():
                    found.pop(number, None)
                    place = None if path is None else place_of(path)
                    if path is not None and place is not None and place.slot in slots and chooser.means(path):
                        found[number] = path
            number = 0
            for path in found.values():
                place = place_of(path)
                if place is not None:
                    act(draft, place, path)
                    draft.count(place.lane, place.slot, -1)
                    number += 1
            return number

        return journal.transact(what, decide)


def _forget(journal: Journal, key: str, owner: tuple[str, int]) -> None:
    """Take away the note of a key whose job is gone; it counts for nothing, this only saves room.

    Moved first and looked at after: if the key was taken anew in this very moment, its note is put back.
    """
    aside = journal.path(f"trash/{key.replace('/', '.')}.{owner[1]}")
    if owner_of(journal, key) != owner or not disk.move(journal.path(key), aside):
        return
    if owner_of(journal, aside.removeprefix(f"{journal.root}/")) == owner:
        disk.remove(aside)
    else:
        disk.move(aside, journal.path(key))
