"""Which worker has which partitions: a pure function of the partitions and of the numbers of the workers.

Everyone who knows the same workers computes the same assignment, so nobody has to hand it out. It is balanced (two
workers differ by one partition at most), whole (each partition has exactly one worker, however many workers there are;
those there is nothing for have none of their own) and stable (a worker that comes takes only its share, and what a
worker that goes leaves behind is all that moves).

How: imagine workers 0, 1, 2 … coming one after another, each taking its share from whoever has most. That is the
assignment for workers 0 to N-1, and one more or one fewer at the end moves the least there is to move. Where a number
below the highest is missing, what its worker would have goes to those with the fewest, and back to it when it comes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

Shares = Mapping[int, tuple[str, ...]]
"""What each worker has, by its number; sorted."""


class Assigns(Protocol):
    """A way to share partitions out: `assign`, or the one a fixed table gives."""

    def __call__(self, partitions: Collection[str], workers: Collection[int]) -> Shares:
        """Give every partition to exactly one of the workers."""


def assign(partitions: Collection[str], workers: Collection[int]) -> Shares:
    """Give every partition to exactly one of the workers, as evenly as can be. There must be a worker."""
    alive = set(workers)
    shares = _in_turn(sorted(set(partitions)), max(alive) + 1)
    orphans = [partition for number, share in enumerate(shares) if number not in alive for partition in share]
    return spread(orphans, {number: shares[number] for number in alive})


def spread(partitions: Collection[str], onto: Mapping[int, Sequence[str]]) -> Shares:
    """Give the partitions to those who have fewest, and leave what they have as it is."""
    shares = {number: list(onto[number]) for number in sorted(onto)}
    level, odd = _level([len(share) for share in shares.values()], len(partitions))
    placed: set[str] = set()
    # Each partition has favourites among the workers that depend on nothing but the two of them, so that most of what
    # is spread stays where it is when a worker more or less takes part.
    for _, partition, number in sorted((_liking(p, number), p, number) for p in partitions for number in shares):
        room = level - len(shares[number])
        if partition in placed or room < 0 or (room == 0 and not odd):
            continue
        odd -= room == 0
        shares[number].append(partition)
        placed.add(partition)
    return {number: tuple(sorted(share)) for number, share in shares.items()}


def moved(before: Shares, after: Shares) -> int:
    """How many partitions have another worker than before."""
    owner = {partition: number for number, share in before.items() for partition in share}
    return sum(owner.get(partition) != number for number, share in after.items() for partition in share)


def _level(heights: Sequence[int], more: int) -> tuple[int, int]:
    """To what height everybody below it can be filled with so many more, and how many are then left over."""
    level, left = min(heights), more
    while (needed := sum(height <= level for height in heights)) <= left:
        left -= needed
        level += 1
    return level, left


def _liking(partition: str, number: int) -> bytes:
    return blake2b(f"{number} {partition}".encode(), digest_size=8).digest()


def _in_turn(partitions: Sequence[str], workers: int) -> list[list[str]]:
    """The shares of workers 0 to `workers` - 1, each of whom took its share from those before."""
    shares = [list(partitions)]
    for number in range(1, workers):
        # Rounded down, so that the fullest are left with as much as the newcomer, or one more. The last name of the
        # fullest goes: so what stays and what goes are both neighbours in the alphabet.
        taken = [max(shares, key=len).pop() for _ in range(len(partitions) // (number + 1))]
        shares.append(sorted(taken))
    return shares
