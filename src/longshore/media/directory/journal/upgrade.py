"""Upgrades a queue from format 1, in which no path contained a job's host.

Every step is a change in the journal, and the marker file is written last. If a process dies in the middle, or several
processes upgrade at the same time, the queue stays usable, and the next process that opens it completes the upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, read
from longshore.media.directory.files.layout import FINISHED, JobFileName, Slot, file_of, host_of, pending
from longshore.media.directory.files.quarantine import move_to_rejected
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange

AT_ONCE = 5000
"""Files that move in one change; the entry of a million moves would have hundreds of megabytes."""


def upgrade_layout(journal: Journal) -> None:
    """Move every job that is unfinished or can be retried to a path with its host."""

    def decide(change: PendingChange, head: JournalHead) -> int:
        moves = list(islice(_moves(journal, head, change.id), AT_ONCE))
        for source, target in moves:
            change.move(source, target)
        return len(moves)

    while journal.transact("bring over", decide):
        pass


def _moves(journal: Journal, head: JournalHead, change_id: str) -> Iterator[tuple[str, str]]:
    """Yield the old and new path of each file that is still at a path of format 1."""
    for lane in head.lanes:
        for priority in listing.priorities(journal, lane):
            old = f"pending/{lane}/{priority}"
            for segment in [name for name in disk.names(journal.path(old)) if listing.is_old_segment(name)]:
                found = False
                for file, host, path in _without_host(journal, f"{old}/{segment}"):
                    found = True
                    yield path, pending(lane, file._replace(host=host, change=change_id))
                if not found:
                    disk.remove_if_empty(journal.path(f"{old}/{segment}"))
        for minute in disk.names(journal.path(f"pending/{lane}/later")):
            for file, host, path in _without_host(journal, f"pending/{lane}/later/{minute}"):
                if host:
                    yield path, pending(lane, file._replace(host=host, change=change_id))
        for slot in (Slot.FAILED, Slot.CANCELLED):
            for segment in disk.names(journal.path(f"{FINISHED[slot]}/{lane}")):
                yield from _renamed(journal, f"{FINISHED[slot]}/{lane}/{segment}")
        for worker in disk.names(journal.path("processing")):
            yield from _renamed(journal, f"processing/{worker}/{lane}")


def _renamed(journal: Journal, folder: str) -> Iterator[tuple[str, str]]:
    for file, host, path in _without_host(journal, folder):
        if host:
            yield path, f"{folder}/{file._replace(host=host)}"


def _without_host(journal: Journal, folder: str) -> Iterator[tuple[JobFileName, str, str]]:
    """Yield file name, host and path of each job in a folder whose name contains no host."""
    for name in sorted(disk.names(journal.path(folder))):
        path = f"{folder}/{name}"
        file = file_of(name)
        if file is None or file.host:
            continue
        try:
            record = read(journal.root, path)
        except DamagedError as error:
            move_to_rejected(journal.root, path, str(error))
            journal.miscounted = True
            continue
        if record is not None:
            yield file, host_of(record.host), path
