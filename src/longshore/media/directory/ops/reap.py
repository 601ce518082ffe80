"""Recovery: returns the jobs of silent workers, removes leftovers of dead processes, and rejects foreign files."""

from __future__ import annotations

import os

from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, encode, read
from longshore.media.directory.files.layout import Slot, place_of
from longshore.media.directory.files.quarantine import move_to_rejected, reason_text
from longshore.media.directory.files.rejected import REASON, report
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops.heartbeats import Workers
from longshore.media.directory.ops.presence import WorkerInfoFiles
from longshore.media.directory.ops.reconcile import reconcile, reconcile_miscounted
from longshore.media.directory.ops.settle import SettleVerdict, apply_verdict, expire
from longshore.media.directory.ops.submit import owner_of
from longshore.queue import Reaped


def reap(journal: Journal, workers: Workers, presence: WorkerInfoFiles, now: float) -> Reaped:
    """Return to the queue the jobs of workers that are silent for this observer, and clean up."""
    journal.catch_up()
    holders = listing.workers(journal)
    silent = [folder for folder in holders if workers.silent(folder)]
    reaped = _bring_back(journal, workers, silent, now) if silent else Reaped()
    presence.remove_silent()
    for folder in set(workers.known()) - set(holders):
        # Not as soon as it is silent: it may have written its heartbeat for a claim that is still in progress.
        if workers.gone(folder):
            workers.forget(folder)
    # An outdated listing may have hidden the job that is due first.
    journal.due.clear()
    reconcile_miscounted(journal)
    listing.remove_emptied(journal)
    listing.tidy(journal)
    _clean_up(journal, workers)
    return reaped


def reject(journal: Journal, damaged: DamagedError) -> None:
    """Move a damaged job file to rejected/. Its job leaves the queue, and its key can be submitted again."""
    path, reason = damaged.path, str(damaged)
    found = place_of(path)
    if found is None:
        move_to_rejected(journal.root, path, reason)
        return
    place = found

    def decide(change: PendingChange, head: JournalHead) -> bool:
        # Another process may have moved the job, or rejected the file, since it was read.
        if place.lane not in head.lanes or not os.path.lexists(journal.path(path)):
            return False
        counted = head.lanes[place.lane].counts[place.slot]
        # The counters do not include a file that a person put there. If this guess is wrong, the next reap corrects it.
        is_counted = listing.count(journal, place.lane, place.slot) <= counted
        target = f"rejected/{change.id}~{place.file}"
        (text,) = change.stage([reason_text(path, reason, head.lanes[place.lane].run)])
        change.move(text, f"{target}{REASON}")
        change.move(path, target)
        change.free_keys()
        if is_counted:
            change.count(place.lane, place.slot, -1)
        return True

    if journal.transact("reject", decide):
        report(path, reason)


def repair_counters(journal: Journal) -> None:
    """Set all counters to the number of files, and free keys without a job, after a counted file was rejected."""
    journal.miscounted = not reconcile(journal, journal.head.lanes, tuple(Slot), report=False)


def _bring_back(journal: Journal, workers: Workers, silent: list[str], now: float) -> Reaped:
    verdicts: dict[str, SettleVerdict] = {}
    staged: dict[str, str] = {}

    def decide(change: PendingChange, head: JournalHead) -> Reaped:
        del head
        there = [path for folder in silent for _, _, path in listing.claimed(journal, folder)]
        for path in there:
            place = place_of(path)
            record = read(journal.root, path) if path not in verdicts else None
            if place is not None and record is not None:
                verdicts[path] = expire(record, place.file, workers.label(place.worker), now)
        judged = [path for path in there if path in verdicts]
        contents = {
            path: encode(record)
            for path in judged
            if path not in staged and (record := verdicts[path].record) is not None
        }
        staged.update(zip(contents, change.stage(list(contents.values())), strict=True))
        for path in judged:
            apply_verdict(change, path, verdicts[path], staged[path])
        failed = sum(verdicts[path].slot is Slot.FAILED for path in judged)
        return Reaped(returned=len(judged) - failed, failed=failed)

    return journal.transact("reap", decide)


def _clean_up(journal: Journal, workers: Workers) -> None:
    for folder in listing.workers(journal):
        disk.remove_if_empty(journal.path(f"processing/{folder}"))
    for name in workers.abandoned():
        journal.sweep(name)
    for name in disk.names(journal.path("trash")):
        shard, _, rest = name.partition(".")
        digest, _, number = rest.partition(".")
        owner = owner_of(journal, f"trash/{name}")
        if owner is not None and str(owner[1]) != number:
            # `prune` moved the link of a reused key here, and died before it could put the link back.
            disk.move(journal.path(f"trash/{name}"), journal.path(f"keys/{shard}/{digest}"))
        elif owner is not None:
            disk.remove(journal.path(f"trash/{name}"))
        else:
            disk.remove_tree(journal.path(f"trash/{name}"))
