"""The assignment of partitions to workers: a pure function of the partitions and of the numbers of the workers.

All processes that know the same workers compute the same assignment, so no coordinator is needed. The assignment is

- balanced: two workers differ by at most one partition;
- complete: each partition has exactly one worker, and if there are more workers than partitions, some have none;
- stable: a new worker takes only its share, and when a worker leaves, only its partitions move.

How: workers 0, 1, 2 … join one after another, and each takes its share from the workers that have most. That is the
assignment for workers 0 to N-1, and adding or removing the last worker moves as few partitions as possible. If a number
below the highest is missing, the partitions of that worker go to the workers with the fewest, and back when it joins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

Shares = Mapping[int, tuple[str, ...]]
"""The partitions of each worker, by its number; sorted."""


class Assigns(Protocol):
    """A function that assigns partitions: `assign`, or `AssignmentTable.assign` of a fixed table."""

    def __call__(self, partitions: Collection[str], workers: Collection[int]) -> Shares:
        """Return the shares: every partition belongs to exactly one of the workers."""


def assign(partitions: Collection[str], workers: Collection[int]) -> Shares:
    """Return balanced shares: every partition belongs to exactly one of `workers`, of which there is at least one."""
    alive = set(workers)
    shares = _join_in_order(sorted(set(partitions)), max(alive) + 1)
    orphans = [partition for number, share in enumerate(shares) if number not in alive for partition in share]
    return spread(orphans, {number: shares[number] for number in alive})


def spread(partitions: Collection[str], onto: Mapping[int, Sequence[str]]) -> Shares:
    """Return the shares `onto` with `partitions` added to those that have the fewest; nothing else moves."""
    shares = {number: list(onto[number]) for number in sorted(onto)}
    level, extra = _level([len(share) for share in shares.values()], len(partitions))
    placed: set[str] = set()
    # Each pair of partition and worker has a fixed rank (rendezvous hashing), so that most of these partitions keep
    # their worker when another worker joins or leaves.
    for _, partition, number in sorted((_rank(p, number), p, number) for p in partitions for number in shares):
        missing = level - len(shares[number])
        if partition in placed or missing < 0 or (missing == 0 and not extra):
            continue
        extra -= missing == 0
        shares[number].append(partition)
        placed.add(partition)
    return {number: tuple(sorted(share)) for number, share in shares.items()}


def moved(before: Shares, after: Shares) -> int:
    """Return how many partitions have another worker than before."""
    owner = {partition: number for number, share in before.items() for partition in share}
    return sum(owner.get(partition) != number for number, share in after.items() for partition in share)


def _level(sizes: Sequence[int], more: int) -> tuple[int, int]:
    """Return the level to which `more` partitions fill up the smallest shares, and how many are left over."""
    level, left = min(sizes), more
    while (needed := sum(size <= level for size in sizes)) <= left:
        left -= needed
        level += 1
    return level, left


def _rank(partition: str, number: int) -> bytes:
    return blake2b(f"{number} {partition}".encode(), digest_size=8).digest()


def _join_in_order(partitions: Sequence[str], workers: int) -> list[list[str]]:
    """Return the shares of workers 0 to `workers` - 1; each took its share from those before."""
    shares = [list(partitions)]
    for number in range(1, workers):
        # Rounded down, so that the largest shares keep as many as the new worker gets, or one more. The last names
        # move, so that neighbours in the alphabet mostly stay together.
        taken = [max(shares, key=len).pop() for _ in range(len(partitions) // (number + 1))]
        shares.append(sorted(taken))
    return shares
