"""The workers of a run, from the worker registry and what workers report of themselves there.

A worker reports which run it works on (`run`; none means every run), which kinds it claims (`kinds`), how many attempts
it may have in flight (`of`), how many it has (`busy`), and how long it pauses between jobs (`pause`). A value that is
missing or malformed counts as not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.submissions import submissions_to, workers_among
from longshore.queue import Count


class ActiveWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a run at one moment."""

    workers: int | None = None
    """None if the queue has no worker registry."""
    busy: int | None = None
    """Attempts in flight; None unless every worker reports it."""
    slots: int | None = None
    """Attempts that may be in flight at once; None unless every worker reports it."""
    pause: float = 0.0
    """Average seconds that a worker pauses between two jobs; those that do not report it count as without a pause."""
    kinds: frozenset[str] | None = None
    """All kinds that the workers claim; None unless there is a worker and every one reports it."""
    unseen: int = 0
    """Workers that probably are not alive, and that the others do not include."""
    unseen_seconds: float = 0.0
    """How long ago the last of those was seen."""
    submissions: int = 0
    """Submissions to the run that are under way: until they end, jobs may be added."""
    submissions_unseen: float | None = None
    """How long ago the last of them was seen, if each of them has probably ended without saying so."""

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that is busy, at most 1; None if it is not known."""
        return None if self.busy is None or not self.slots else min(self.busy / self.slots, 1.0)


def active_among(
    present: Sequence[PresentWorker] | None, run: str | None = None, *, claimed: int | None = None
) -> ActiveWorkers:
    """Return the workers of `run`, or of all runs; `present` is the worker registry, None if the queue has none.

    If workers do not report how many attempts are in flight, `claimed` is used instead: a worker prefetches few jobs.
    """
    if present is None:
        return ActiveWorkers()
    registered = [each for each in workers_among(present) if run is None or works_on(each, run)]
    there = [each.info for each in seen_among(registered)]
    unseen = [each.unseen_seconds for each in registered if each.unseen_seconds is not None]
    in_flight, total = _sum([info.busy for info in there]), _sum([info.slots for info in there])
    if in_flight is None and total is not None and claimed is not None:
        in_flight = min(claimed, total)
    submissions = submissions_to(present, run)
    silences = [each.unseen_seconds for each in submissions if each.unseen_seconds is not None]
    return ActiveWorkers(
        workers=len(there),
        busy=in_flight,
        slots=total,
        pause=fmean(info.pause or 0.0 for info in there) if there else 0.0,
        kinds=_reported_kinds(there),
        unseen=len(unseen),
        unseen_seconds=min(unseen, default=0.0),
        submissions=len(submissions),
        submissions_unseen=min(silences) if silences and len(silences) == len(submissions) else None,
    )


def kinds_without_worker(active: ActiveWorkers, lanes: Iterable[Count]) -> tuple[str, ...]:
    """Return the kinds that have pending jobs and that no worker claims. A kind with a claimed job has a worker."""
    if active.kinds is None:
        return ()
    waiting, held = set[str](), set[str]()
    for lane in lanes:
        waiting |= {lane.kind} if lane.pending else set()
        held |= {lane.kind} if lane.claimed else set()
    return tuple(sorted(waiting - held - active.kinds))


def works_on(each: PresentWorker, run: str) -> bool:
    """Return whether a worker works on this run, as far as it reports."""
    return each.info.working_on in (None, "", msgspec.UNSET, run)


def seen_among(workers: Iterable[PresentWorker]) -> list[PresentWorker]:
    """Return the workers without those that were not seen for longer than their lease."""
    return [each for each in workers if each.unseen_seconds is None]


def _reported_kinds(there: list[WorkerInfo]) -> frozenset[str] | None:
    reported = [info.kinds for info in there if info.kinds is not None]
    return frozenset().union(*reported) if reported and len(reported) == len(there) else None


def _sum(reported: list[int | None]) -> int | None:
    known = [number for number in reported if number is not None]
    return sum(known) if known and len(known) == len(reported) else None
