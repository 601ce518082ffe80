"""Compares the counters of the journal with the files, in both directions, and corrects the counters with proof.

They differ if a person removed, moved or added job files. They also seem to differ while a network volume shows
outdated listings. A counter that such a listing lowered would hide jobs for good, so a counter only changes after a
listing that has proved to be newer than the call (`listing.fresh`). Without that proof everything stays as it is, and
a later call looks again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from longshore.media.directory.files import listing
from longshore.media.directory.files.disk import StaleListingError
from longshore.media.directory.files.job_file import DamagedError, read
from longshore.media.directory.files.layout import Slot, is_lane, lane_of
from longshore.media.directory.files.rejected import REASON, missing_text
from longshore.media.directory.journal.entry import JournalHead
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.journal.pending_change import PendingChange

UNFINISHED = (Slot.READY, Slot.DELAYED, Slot.CLAIMED)
COUNTED_ALWAYS = 100
"""Lanes with at most this many waiting jobs are counted by every reap; of others, only whether there is a file."""

log = logging.getLogger(__name__)


def reconcile(
    journal: Journal, lanes: Collection[str], slots: Collection[Slot] = UNFINISHED, *, report: bool = True
) -> bool:
    """Set the counters of lanes to the number of files. Return False if the volume shows only outdated listings.

    With `report`, jobs whose files are gone are reported in rejected/.
    """

    def decide(change: PendingChange, head: JournalHead) -> int:
        missing = 0
        for lane in sorted(head.lanes.keys() & set(lanes)):
            known = head.lanes[lane].counts
            deltas = {slot: listing.count(journal, lane, slot) - known[slot] for slot in slots}
            for slot, delta in deltas.items():
                if delta:
                    change.count(lane, slot, delta)
            if (gone := -sum(deltas.values())) > 0:
                missing += gone
                if not report:
                    continue
                (text,) = change.stage([missing_text(head.lanes[lane].run, gone)])
                change.move(text, f"rejected/{change.id}~{lane}{REASON}")
        if missing:
            # The key of a removed job may be submitted again.
            change.free_keys()
        return missing

    missing = _with_proof(journal, "recount", decide)
    if missing and report:
        log.warning("%s job files are gone from %r: they were removed by hand", f"{missing:,}", journal.root)
    return missing is not None


def reconcile_miscounted(journal: Journal) -> None:
    """Correct the counters of all lanes whose files are more or fewer than counted. Costs little if none differs."""
    n = journal.catch_up().n
    off = set(_miscounted(journal))
    unknown = _unknown_lanes(journal)
    # Another process may have changed the files during the listing.
    if (off or unknown) and journal.refresh().n == n:
        if off:
            reconcile(journal, off)
        for lane, path in unknown.items():
            _adopt(journal, lane, path)


def _miscounted(journal: Journal) -> Iterator[str]:
    """Yield the lanes whose counters may be wrong, by listings without proof."""
    held = Counter(lane for worker in listing.workers(journal) for lane, _, _ in listing.claimed(journal, worker))
    files: dict[Slot, Callable[[Journal, str], Iterator[object]]] = {
        Slot.READY: listing.all_ready,
        Slot.DELAYED: listing.delayed,
    }
    for name, lane in list(journal.head.lanes.items()):
        if lane.counts[Slot.CLAIMED] != held[name]:
            yield name
            continue
        for slot, found in files.items():
            counted = lane.counts[slot]
            # One more than counted is enough to see that there are too many.
            most = counted + 1 if counted <= COUNTED_ALWAYS else 1
            if sum(1 for _ in islice(found(journal, name), max(1, most))) != min(counted, most):
                yield name
                break


def _unknown_lanes(journal: Journal) -> dict[str, str]:
    """Return the lanes that wait in pending/ and that the journal does not know, each with the path of one job."""
    names = [name for name in listing.listed(journal, "pending") if is_lane(name) and name not in journal.head.lanes]
    found = {}
    for lane in names:
        paths = (path for paths in (listing.all_ready(journal, lane), _delayed(journal, lane)) for path in paths)
        if (path := next(paths, None)) is not None:
            found[lane] = path
    return found


def _delayed(journal: Journal, lane: str) -> Iterator[str]:
    return (path for _, path in listing.delayed(journal, lane))


def _adopt(journal: Journal, lane: str, path: str) -> None:
    """Count the jobs of a lane that the journal does not know, if the file at `path` is a job of that lane."""
    try:
        record = read(journal.root, path)
    except DamagedError:
        return
    if record is None or lane_of(record.run, record.kind, record.partition) != lane:
        return
    job = record

    def decide(change: PendingChange, head: JournalHead) -> int:
        if lane not in head.lanes:
            for slot in Slot:
                if found := listing.count(journal, lane, slot):
                    change.lane(head, job.run, job.kind, job.partition)
                    change.count(lane, slot, found)
        return 0

    _with_proof(journal, "recount", decide)


def _with_proof(journal: Journal, what: str, decide: Callable[[PendingChange, JournalHead], int]) -> int | None:
    """Commit the change that `decide` fills from fresh listings, and return its answer; None without proof."""
    try:
        with listing.fresh(journal):
            return journal.transact(what, decide)
    except StaleListingError as stale:
        log.debug("The listing of %r is outdated; its jobs are counted later", str(stale))
        return None
