"""The reach of a member: the jobs that it can take, as it declares them; and which members may be given a partition.

Members may differ: one is limited to some partitions, one has handlers for some kinds only, one works on a single run.
A partition that is given to a member that cannot take its jobs would never be worked on. So it is given to one of the
members that can take most of its unfinished jobs, by kind and run, and only one of all members whose reaches overlap
has it. Members that have no kind or no run in common may have the same partition: they never take the same job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import UNSET

from longshore.extensions.presence import WorkerInfo
from longshore.lease import Want
from longshore.queue import Count

Lane = tuple[str, str]
"""A run and a kind, of which a partition has unfinished jobs."""


class Reach(msgspec.Struct, frozen=True):
    """The jobs that a member can take. None means all."""

    run: str | None
    kinds: frozenset[str] | None
    partitions: frozenset[str] | None

    @classmethod
    def of(cls, want: Want) -> Reach:
        """Return the reach of a worker that claims with `want`."""
        return cls(want.run, want.kinds, want.partitions)

    @classmethod
    def declared(cls, info: WorkerInfo) -> Reach:
        """Return the reach that a member publishes; without limits if it does not say, as older versions."""
        run = None if info.working_on is UNSET else info.working_on
        kinds, partitions = info.kinds, info.partitions
        return cls(
            run, None if kinds is None else frozenset(kinds), None if partitions is None else frozenset(partitions)
        )

    def meets(self, other: Reach) -> bool:
        """Return whether both can take the same jobs of a partition that both can take."""
        if self.run is not None and other.run is not None and self.run != other.run:
            return False
        return self.kinds is None or other.kinds is None or not self.kinds.isdisjoint(other.kinds)

    def has(self, partition: str) -> bool:
        """Return whether it can take jobs of the partition."""
        return self.partitions is None or partition in self.partitions

    def takes(self, lane: Lane) -> bool:
        """Return whether it can take the jobs of this run and kind."""
        run, kind = lane
        return self.run in {None, run} and (self.kinds is None or kind in self.kinds)


def groups(
    partitions: Iterable[str], own: int, reaches: Mapping[int, Reach], counts: Collection[Count]
) -> dict[frozenset[int], list[str]]:
    """Return the partitions by the members that share them; those that the member `own` does not share are left out.

    `reaches` are those of all members by number, `counts` the jobs of the runs that they work on.
    """
    unfinished: defaultdict[str, set[Lane]] = defaultdict(set)
    for count in counts:
        if count.remaining:
            unfinished[count.partition].add((count.run, count.kind))
    known: dict[tuple[frozenset[int], frozenset[Lane]], frozenset[int]] = {}
    found: defaultdict[frozenset[int], list[str]] = defaultdict(list)
    for partition in partitions:
        able = frozenset(number for number, reach in reaches.items() if reach.has(partition))
        case = able, frozenset(unfinished[partition])
        if case not in known:
            known[case] = _sharing(own, {number: reaches[number] for number in able}, case[1])
        if own in known[case]:
            found[known[case]].append(partition)
    return dict(found)


def _sharing(own: int, able: Mapping[int, Reach], lanes: frozenset[Lane]) -> frozenset[int]:
    """Return, of the members that are connected with `own` by common jobs, those that can take most of the lanes."""
    connected, ahead = {own}, [own]
    while ahead:
        reach = able[ahead.pop()]
        met = {number for number, other in able.items() if number not in connected and reach.meets(other)}
        connected |= met
        ahead += met
    taken = {number: sum(map(able[number].takes, lanes)) for number in connected}
    most = max(taken.values())
    return frozenset(number for number in connected if taken[number] == most)
