"""Recovery: returns the jobs of silent workers, removes leftovers of dead processes, and rejects foreign files."""

from __future__ import annotations

import os
from collections import Counter

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
    _recount_claimed(journal)
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
        there = listing.counts(journal, place.lane)
        target = f"rejected/{change.id}~{place.file}"
        (text,) = change.stage([reason_text(path, reason)])
        change.move(text, f"{target}{REASON}")
        change.move(path, target)
        change.free_keys()
        # Count the files instead of subtracting one: the counters do not include a file that a person put there.
        for slot, counted in zip(Slot, there, strict=True):
            change.count(place.lane, slot, counted - (slot is place.slot) - head.lanes[place.lane].counts[slot])
        return True

    if journal.transact("reject", decide):
        report(path, reason)


def recount(journal: Journal, lanes: set[str]) -> None:
    """Set the counters of lanes to the number of files, after a person moved or removed files."""

    def decide(change: PendingChange, head: JournalHead) -> None:
        for lane in lanes & head.lanes.keys():
            for slot, counted in zip(Slot, listing.counts(journal, lane), strict=True):
                if delta := counted - head.lanes[lane].counts[slot]:
                    change.count(lane, slot, delta)

    journal.transact("recount", decide)


def repair_counters(journal: Journal) -> None:
    """Set all counters to the number of files, and free keys without a job, after a counted file was rejected."""
    journal.miscounted = False

    def decide(change: PendingChange, head: JournalHead) -> None:
        change.free_keys()
        for lane, known in head.lanes.items():
            for slot, counted in zip(Slot, listing.counts(journal, lane), strict=True):
                if delta := counted - known.counts[slot]:
                    change.count(lane, slot, delta)

    journal.transact("put right", decide)


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


def _recount_claimed(journal: Journal) -> None:
    """Recount lanes whose files were removed from processing/ by hand, or their jobs would count as claimed forever."""
    n = journal.catch_up().n
    held = Counter(lane for worker in listing.workers(journal) for lane, _, _ in listing.claimed(journal, worker))
    off = {name for name, lane in journal.head.lanes.items() if lane.counts[Slot.CLAIMED] != held[name]}
    if off and journal.refresh().n == n:
        recount(journal, off)


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
