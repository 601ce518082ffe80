"""The workers of a run, from the worker registry and what workers report of themselves there.

A worker reports which run it works on (`run`; none means every run), which kinds it claims (`kinds`), how many attempts
it may have in flight (`of`) and how many it has (`busy`). A value that is missing or malformed counts as not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.queue import Count, Queue


class ActiveWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a run at one moment."""

    workers: int | None = None
    """None if the queue has no worker registry."""
    busy: int | None = None
    """Attempts in flight; None unless every worker reports it."""
    slots: int | None = None
    """Attempts that may be in flight at once; None unless every worker reports it."""
    kinds: frozenset[str] | None = None
    """All kinds that the workers claim; None unless there is a worker and every one reports it."""

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that is busy, at most 1; None if it is not known."""
        return None if self.busy is None or not self.slots else min(self.busy / self.slots, 1.0)


async def active_workers(queue: Queue, run: str | None = None, *, claimed: int | None = None) -> ActiveWorkers:
    """Return the workers of `run`, or of all runs.

    If workers do not report how many attempts are in flight, `claimed` is used instead: a worker prefetches few jobs.
    """
    if not queue.traits.keeps_roll:
        return ActiveWorkers()
    there = [each for each in await cast(WorkerRegistry, queue).present() if run is None or works_on(each, run)]
    slots, busy = ([reported_number(each, word) for each in there] for word in ("of", "busy"))
    in_flight, total = _sum(busy), _sum(slots)
    if in_flight is None and total is not None and claimed is not None:
        in_flight = min(claimed, total)
    return ActiveWorkers(workers=len(there), busy=in_flight, slots=total, kinds=_reported_kinds(there))


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
    membership = each.about.get("membership")
    words: Mapping[str, Any] = membership if isinstance(membership, Mapping) else each.about
    return words.get("run") in (None, "", run)


def reported_number(each: PresentWorker, word: str) -> int | None:
    """Return the number that a worker reports under the key `word`; None if it reports none."""
    number = each.about.get(word)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _reported_kinds(there: list[PresentWorker]) -> frozenset[str] | None:
    try:
        reported = [msgspec.convert(each.about.get("kinds"), frozenset[str]) for each in there]
    except msgspec.ValidationError:
        return None
    return frozenset().union(*reported) if reported else None


def _sum(reported: list[int | None]) -> int | None:
    known = [number for number in reported if number is not None]
    return sum(known) if known and len(known) == len(reported) else None
