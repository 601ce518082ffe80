"""Who is at work on a run, going by the roll and by what workers say of themselves there.

A worker says which run it works on (`run`; none is every run), which kinds it takes (`kinds`), how many attempts it may
have under way at once (`of`) and how many it has (`busy`). What it does not say, or says in other words, is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerInfo, WorkerRegistry
from longshore.queue import Count, Queue


class ActiveWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a run at one moment."""

    workers: int | None = None
    """None where the queue keeps no roll."""
    busy: int | None = None
    """Attempts under way; None unless every worker says it."""
    slots: int | None = None
    """Attempts that may be under way at once; None unless every worker says it."""
    kinds: frozenset[str] | None = None
    """What they take between them; None unless there is a worker and every one says it."""

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that is busy, 1 being all; None where it is not known."""
        return None if self.busy is None or not self.slots else min(self.busy / self.slots, 1.0)


async def active_workers(queue: Queue, run: str | None = None, *, claimed: int | None = None) -> ActiveWorkers:
    """Who is at work on a run, or on any.

    Where they do not say how many attempts are under way, what is claimed stands for it: a worker claims little ahead.
    """
    registry = find(queue, WorkerRegistry)
    if registry is None:
        return ActiveWorkers()
    there = [each.info for each in await registry.present_workers() if run is None or works_on(each, run)]
    under_way, room = _sum([info.busy for info in there]), _sum([info.slots for info in there])
    if under_way is None and room is not None and claimed is not None:
        under_way = min(claimed, room)
    return ActiveWorkers(workers=len(there), busy=under_way, slots=room, kinds=_kinds_said(there))


def untaken(hands: ActiveWorkers, lanes: Iterable[Count]) -> tuple[str, ...]:
    """The kinds of which jobs wait and that no worker takes. One that somebody holds a job of is taken by somebody."""
    if hands.kinds is None:
        return ()
    waiting, held = set[str](), set[str]()
    for lane in lanes:
        waiting |= {lane.kind} if lane.pending else set()
        held |= {lane.kind} if lane.claimed else set()
    return tuple(sorted(waiting - held - hands.kinds))


def works_on(each: PresentWorker, run: str) -> bool:
    """Whether a worker works on this run, as far as it says."""
    return each.info.working_on in (None, "", msgspec.UNSET, run)


def _kinds_said(there: list[WorkerInfo]) -> frozenset[str] | None:
    said = [info.kinds for info in there if info.kinds is not None]
    return frozenset().union(*said) if said and len(said) == len(there) else None


def _sum(said: list[int | None]) -> int | None:
    known = [number for number in said if number is not None]
    return sum(known) if known and len(known) == len(said) else None
