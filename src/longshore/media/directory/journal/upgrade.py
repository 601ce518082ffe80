"""Bringing a queue of format 1 over, in which no path told a job's host.

Every change on the way is one of the journal, and the mark is set last: whoever is stopped in the middle, or does it at
the same time as another, leaves a queue that the next to open it brings over to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, read
from longshore.media.directory.files.layout import FINISHED, JobFileName, Slot, file_of, host_of, pending
from longshore.media.directory.files.quarantine import set_aside
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange

AT_ONCE = 5000
"""Files that move in one change; a change of a million would be one file of hundreds of megabytes."""


def bring_over(journal: Journal) -> None:
    """Put every unfinished job, and every one that can be retried, where its host belongs."""

    def decide(draft: PendingChange, head: JournalHead) -> int:
        moves = list(islice(_moves(journal, head, draft.id), AT_ONCE))
        for source, target in moves:
            draft.move(source, target)
        return len(moves)

    while journal.transact("bring over", decide):
        pass


def _moves(journal: Journal, head: JournalHead, change: str) -> Iterator[tuple[str, str]]:
    """What lies where format 1 had it, and where it belongs."""
    for lane in head.lanes:
        for priority in listing.priorities(journal, lane):
            old = f"pending/{lane}/{priority}"
            for segment in [name for name in disk.names(journal.path(old)) if listing.is_old_segment(name)]:
                found = False
                for file, host, path in _told(journal, f"{old}/{segment}"):
                    found = True
                    yield path, pending(lane, file._replace(host=host, change=change))
                if not found:
                    disk.remove_if_empty(journal.path(f"{old}/{segment}"))
        for minute in disk.names(journal.path(f"pending/{lane}/later")):
            for file, host, path in _told(journal, f"pending/{lane}/later/{minute}"):
                if host:
                    yield path, pending(lane, file._replace(host=host, change=change))
        for slot in (Slot.FAILED, Slot.CANCELLED):
            for segment in disk.names(journal.path(f"{FINISHED[slot]}/{lane}")):
                yield from _renamed(journal, f"{FINISHED[slot]}/{lane}/{segment}")
        for worker in disk.names(journal.path("processing")):
            yield from _renamed(journal, f"processing/{worker}/{lane}")


def _renamed(journal: Journal, folder: str) -> Iterator[tuple[str, str]]:
    for file, host, path in _told(journal, folder):
        if host:
            yield path, f"{folder}/{file._replace(host=host)}"


def _told(journal: Journal, folder: str) -> Iterator[tuple[JobFileName, str, str]]:
    """The jobs in a folder whose names tell no host: what they tell, which host it is, and where each lies."""
    for name in sorted(disk.names(journal.path(folder))):
        path = f"{folder}/{name}"
        file = file_of(name)
        if file is None or file.host:
            continue
        try:
            record = read(journal.root, path)
        except DamagedError as error:
            set_aside(journal.root, path, str(error))
            journal.miscounted = True
            continue
        if record is not None:
            yield file, host_of(record.host), path
