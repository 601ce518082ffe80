"""Who is at work on a run, going by the roll and by what workers say of themselves there.

A worker says which run it works on (`run`; none is every run), how many attempts it may have under way at once (`of`)
and how many it has (`busy`). What it does not say, or says in other words, is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from longshore.queue import Queue
from longshore.roll import KeepsRoll, Present


class Hands(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a run at one moment."""

    workers: int | None = None
    """None where the queue keeps no roll."""
    busy: int | None = None
    """Attempts under way; None unless every worker says it."""
    slots: int | None = None
    """Attempts that may be under way at once; None unless every worker says it."""

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that is busy, 1 being all; None where it is not known."""
        return None if self.busy is None or not self.slots else min(self.busy / self.slots, 1.0)


async def hands_of(queue: Queue, run: str | None = None, *, claimed: int | None = None) -> Hands:
    """Who is at work on a run, or on any.

    Where they do not say how many attempts are under way, what is claimed stands for it: a worker claims little ahead.
    """
    if not queue.traits.keeps_roll:
        return Hands()
    there = [each for each in await cast(KeepsRoll, queue).present() if run is None or works_on(each, run)]
    slots, busy = ([number_said(each, word) for each in there] for word in ("of", "busy"))
    under_way, room = _sum(busy), _sum(slots)
    if under_way is None and room is not None and claimed is not None:
        under_way = min(claimed, room)
    return Hands(workers=len(there), busy=under_way, slots=room)


def works_on(each: Present, run: str) -> bool:
    """Whether a worker works on this run, as far as it says."""
    membership = each.about.get("membership")
    words: Mapping[str, Any] = membership if isinstance(membership, Mapping) else each.about
    return words.get("run") in (None, "", run)


def number_said(each: Present, word: str) -> int | None:
    """The number that a worker says under this word; None where it says none."""
    said = each.about.get(word)
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else None


def _sum(said: list[int | None]) -> int | None:
    known = [number for number in said if number is not None]
    return sum(known) if known and len(known) == len(said) else None
