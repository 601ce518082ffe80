"""The plan of a fleet before it starts: its workers, and the partitions that each starts with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

from longshore.errors import UsageError
from longshore.fleet.partitions.assignment import Assigns, Shares, assign
from longshore.queue import Count

TRIED = (0, 1)
"""The numbers of the workers that a trial starts."""


@dataclass(frozen=True)
class StartPlan:
    """The workers to start. In a trial only a few of them, each with the partitions it would have in the full fleet."""

    size: int
    """The number of workers in the full fleet."""
    shares: Shares
    """The first partitions of each worker that is started, by its number."""
    limits: frozenset[str] | None
    """The only partitions to work on; None means all."""
    partitioned: bool
    trial: bool = False

    @property
    def reach(self) -> frozenset[str] | None:
        """The partitions that the workers together may ever claim from; None means all."""
        if not self.partitioned:
            return None
        limits = [self.limits_of(number) for number in self.numbers]
        return None if None in limits else frozenset[str]().union(*(each for each in limits if each is not None))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the workers that are started."""
        return tuple(self.shares)

    def limits_of(self, number: int) -> frozenset[str] | None:
        """Return the partitions that this worker may ever claim from; None means all."""
        return frozenset(self.shares[number]) if self.trial and self.partitioned else self.limits

    def counts(self, counts: Collection[Count]) -> list[Count]:
        """Return the counts of the partitions that the workers may claim from."""
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
    apart: Collection[int] = (),
) -> StartPlan:
    """Return the plan of a fleet for the `known` partitions, or for those in `only`.

    Raise `UsageError` if `only` has a partition that is not known. If no partitions are known, the workers share
    everything, or the partitions in `only`. `taken` are the numbers of the workers of other fleets that work on the
    same run and share its partitions with these, `apart` the numbers of those that are limited to other partitions.
    """
    if only is not None and known and (unknown := [name for name in only if name not in known]):
        raise UsageError(
            f"There is no partition {', '.join(unknown)} here. There are: {_some(sorted(known))}. Correct --partitions."
        )
    partitions = sorted(known if only is None else only)
    if trial:
        taken = apart = ()  # the workers of a trial keep their partitions, whatever other workers there are
    numbers_in_run = _numbers_in_run(size, {*taken, *apart})
    all_shares = assigns(partitions, {*taken, *numbers_in_run})
    shares: Shares = {number: all_shares[number_in_run] for number, number_in_run in enumerate(numbers_in_run)}
    if trial:
        tried = {number: shares[number] for number in TRIED if number < size}
        # A worker without partitions would have nothing to do in a trial.
        shares = {number: share for number, share in tried.items() if share or not partitions}
    limits = None if only is None else frozenset(only)
    return StartPlan(size, shares, limits, partitioned=bool(partitions), trial=trial)


def _numbers_in_run(size: int, taken: Collection[int]) -> list[int]:
    """Return the number of each worker among all of the run: its own, or the lowest free one if that is taken."""
    numbers_in_run: list[int] = []
    for number in range(size):
        used = {*taken, *numbers_in_run}
        numbers_in_run.append(number if number not in used else next(free for free in count() if free not in used))
    return numbers_in_run


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
