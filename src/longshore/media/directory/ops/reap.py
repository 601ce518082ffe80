"""Recovery: what silent workers held comes back, leftovers of the dead go, and what does not belong is set aside."""

from __future__ import annotations

import os
from collections import Counter

from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, encode, read
from longshore.media.directory.files.layout import Slot, place_of
from longshore.media.directory.files.quarantine import reason_text, set_aside
from longshore.media.directory.files.rejected import REASON, tell
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange
from longshore.media.directory.ops.heartbeats import Workers
from longshore.media.directory.ops.presence import WorkerInfoFiles
from longshore.media.directory.ops.settle import SettleVerdict, expire, put
from longshore.media.directory.ops.submit import owner_of
from longshore.queue import Reaped


def reap(journal: Journal, workers: Workers, roll: WorkerInfoFiles, now: float) -> Reaped:
    """Bring back what workers held that are silent under the eyes of this observer."""
    journal.catch_up()
    holders = listing.workers(journal)
    silent = [folder for folder in holders if workers.silent(folder)]
    reaped = _bring_back(journal, workers, silent, now) if silent else Reaped()
    roll.clear()
    for folder in set(workers.known()) - set(holders):
        # Not as soon as it is silent: it may have shown itself in order to claim, and still be at it.
        if workers.gone(folder):
            workers.forget(folder)
    _recount_claimed(journal)
    listing.clear_away(journal)
    listing.tidy(journal)
    _clean_up(journal, workers)
    return reaped


def reject(journal: Journal, damaged: DamagedError) -> None:
    """Set a job's file aside that is not as it was written. Its job leaves the queue, and its key is free again."""
    path, reason = damaged.path, str(damaged)
    found = place_of(path)
    if found is None:
        set_aside(journal.root, path, reason)
        return
    place = found

    def decide(draft: PendingChange, head: JournalHead) -> bool:
        # Others may have moved the job, or set the file aside, since it was read.
        if place.lane not in head.lanes or not os.path.lexists(journal.path(path)):
            return False
        there = listing.counts(journal, place.lane)
        target = f"rejected/{draft.id}~{place.file}"
        (text,) = draft.stage([reason_text(path, reason)])
        draft.move(text, f"{target}{REASON}")
        draft.move(path, target)
        draft.free_keys()
        # Counted, not reckoned: a file that a person put there was never counted in.
        for slot, counted in zip(Slot, there, strict=True):
            draft.count(place.lane, slot, counted - (slot is place.slot) - head.lanes[place.lane].counts[slot])
        return True

    if journal.transact("reject", decide):
        tell(path, reason)


def recount(journal: Journal, lanes: set[str]) -> None:
    """Make the counters of lanes say what is there, after a person moved or removed files."""

    def decide(draft: PendingChange, head: JournalHead) -> None:
        for lane in lanes & head.lanes.keys():
            for slot, counted in zip(Slot, listing.counts(journal, lane), strict=True):
                if change := counted - head.lanes[lane].counts[slot]:
                    draft.count(lane, slot, change)

    journal.transact("recount", decide)


def put_right(journal: Journal) -> None:
    """Make counters and keys say what is there, after something was set aside that a change had counted in."""
    journal.miscounted = False

    def decide(draft: PendingChange, head: JournalHead) -> None:
        draft.free_keys()
        for lane, known in head.lanes.items():
            for slot, counted in zip(Slot, listing.counts(journal, lane), strict=True):
                if change := counted - known.counts[slot]:
                    draft.count(lane, slot, change)

    journal.transact("put right", decide)


def _bring_back(journal: Journal, workers: Workers, silent: list[str], now: float) -> Reaped:
    verdicts: dict[str, SettleVerdict] = {}
    staged: dict[str, str] = {}

    def decide(draft: PendingChange, head: JournalHead) -> Reaped:
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
        staged.update(zip(contents, draft.stage(list(contents.values())), strict=True))
        for path in judged:
            put(draft, path, verdicts[path], staged[path])
        failed = sum(verdicts[path].slot is Slot.FAILED for path in judged)
        return Reaped(returned=len(judged) - failed, failed=failed)

    return journal.transact("reap", decide)


def _recount_claimed(journal: Journal) -> None:
    """Notice where files were taken out of processing/ by hand, or the counters would say forever that one is held."""
    n = journal.catch_up().n
    held = Counter(lane for worker in listing.workers(journal) for lane, _, _ in listing.claimed(journal, worker))
    off = {name for name, lane in journal.head.lanes.items() if lane.counts[Slot.CLAIMED] != held[name]}
    if off and journal.look().n == n:
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
            # The note of a key that was taken away by mistake, by a process that died before it could put it back.
            disk.move(journal.path(f"trash/{name}"), journal.path(f"keys/{shard}/{digest}"))
        elif owner is not None:
            disk.remove(journal.path(f"trash/{name}"))
        else:
            disk.remove_tree(journal.path(f"trash/{name}"))
