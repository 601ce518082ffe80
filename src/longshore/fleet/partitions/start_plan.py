"""A fleet before it starts: which workers there will be, and which partitions each of them begins with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

from longshore.errors import UsageError
from longshore.fleet.partitions.assignment import Assigns, Shares, assign
from longshore.queue import Count

TRIED = (0, 1)
"""The workers of a trial."""


@dataclass(frozen=True)
class StartPlan:
    """The workers to start. In a trial only a few of a fleet, each with exactly what it would have in the whole one."""

    size: int
    """How many workers the whole fleet has."""
    shares: Shares
    """What each worker that is started begins with, by its number."""
    limits: frozenset[str] | None
    """The only partitions to be worked on; None is all."""
    partitioned: bool
    trial: bool = False

    @property
    def reach(self) -> frozenset[str] | None:
        """The partitions that any of the workers may ever touch; None is all."""
        if not self.partitioned:
            return None
        limits = [self.limits_of(number) for number in self.numbers]
        return None if None in limits else frozenset[str]().union(*(each for each in limits if each is not None))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The workers that are started."""
        return tuple(self.shares)

    def limits_of(self, number: int) -> frozenset[str] | None:
        """The partitions this worker may ever touch; None is all."""
        return frozenset(self.shares[number]) if self.trial and self.partitioned else self.limits

    def counts(self, counts: Collection[Count]) -> list[Count]:
        """Of these counts, those of what the workers may work on."""
        reach = self.reach
        return [each for each in counts if reach is None or each.partition in reach]


def start_plan(
    size: int,
    known: Collection[str],
    *,
    only: Sequence[str] | None = None,
    assigns: Assigns = assign,
    trial: bool = False,
    taken: Collection[int] = (),
) -> StartPlan:
    """A fleet of that size for the known partitions, or for some of them only. `UsageError` for one that is not known.

    Where nothing is known of partitions, the workers share everything, or what they are limited to. `taken` are the
    numbers of the workers of other fleets that are on the same run and share its partitions with these.
    """
    if only is not None and known and (strangers := [name for name in only if name not in known]):
        raise UsageError(
            f"There is no partition {', '.join(strangers)} here. There are: {_some(sorted(known))}. "
            "Correct --partitions."
        )
    partitions = sorted(known if only is None else only)
    if trial:
        taken = ()  # what its workers have is theirs for good, whoever else is there
    places = _places(size, taken)
    whole = assigns(partitions, {*taken, *places})
    shares: Shares = {number: whole[place] for number, place in enumerate(places)}
    if trial:
        tried = {number: shares[number] for number in TRIED if number < size}
        # Without anything of its own a worker would have nothing to try.
        shares = {number: share for number, share in tried.items() if share or not partitions}
    limits = None if only is None else frozenset(only)
    return StartPlan(size, shares, limits, partitioned=bool(partitions), trial=trial)


def _places(size: int, taken: Collection[int]) -> list[int]:
    """The number that each worker of the fleet will have among all who share: its own, or else the lowest one free."""
    places: list[int] = []
    for number in range(size):
        gone = {*taken, *places}
        places.append(number if number not in gone else next(free for free in count() if free not in gone))
    return places


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
