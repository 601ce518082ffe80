"""Workers that come and go, on a queue in memory with a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from datetime import timedelta
from typing import Any

from longshore.clock import ManualClock
from longshore.fleet.partitions.membership import Membership, Partitioning
from longshore.job import new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Count

LEASE = timedelta(seconds=30)
BEAT = 10.0
ABCDEF = frozenset("abcdef")


class CountingQueue(MemoryQueue):
    """Counts what is asked of it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.claims: list[frozenset[str] | None] = []
        self.looks = 0

    async def claim(self, want: Want) -> list[Lease]:
        self.claims.append(want.partitions)
        return await super().claim(want)

    async def stats(self, run: str | None = None) -> list[Count]:
        self.looks += 1
        return await super().stats(run)


class Scene:
    """A queue, a clock, and workers that come and go."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue = CountingQueue(self.clock)
        self.alive: dict[str, Membership] = {}
        self.wants: dict[str, Want] = {}
        self.hands: dict[str, list[Lease]] = {}

    def come(
        self,
        label: str,
        *,
        partitions: Collection[str] | None = ABCDEF,
        run: str | None = "r",
        kinds: Collection[str] = ("page",),
        **plan: Any,
    ) -> Membership:
        limit = None if partitions is None else frozenset(partitions)
        want = Want(worker=WorkerId.new(label), lease=LEASE, run=run, kinds=frozenset(kinds), partitions=limit)
        hand = self.hands[label] = []
        busy = lambda: frozenset(lease.job.partition for lease in hand)  # noqa: E731
        self.wants[label] = want
        self.alive[label] = Partitioning(**plan).join(want, self.queue, self.clock, busy)
        return self.alive[label]

    def die(self, label: str) -> None:
        del self.alive[label]

    async def beat(self, times: int = 1) -> None:
        """Everyone who is alive beats, as often as said, a third of a lease apart."""
        for _ in range(times):
            for member in list(self.alive.values()):
                await member.beat()
            self.clock.advance(BEAT)

    async def submit(self, partition: str, jobs: int = 1, **options: Any) -> None:
        options = {"run": "r", "kind": "page"} | options
        kind = options.pop("kind")
        known = len(self.queue._jobs)
        await self.queue.submit([new_job(kind, {"n": known + n}, partition=partition, **options) for n in range(jobs)])

    async def claim(self, label: str, limit: int = 1) -> list[str]:
        """The partitions of what it gets."""
        want = self.wants[label]

        def take(partitions: frozenset[str] | None) -> Awaitable[list[Lease]]:
            assert partitions != frozenset()
            return self.queue.claim(Want(**fields_of(want) | {"partitions": partitions, "limit": limit}))

        leases = await self.alive[label].claim(take)
        self.hands[label] += leases
        return [lease.job.partition for lease in leases]

    def owned(self) -> dict[str, str]:
        """Who has each partition; fails where two have one."""
        found: dict[str, str] = {}
        for label, member in self.alive.items():
            for partition in member.own:
                assert partition not in found, f"{partition} is with {found[partition]} and with {label}"
                found[partition] = label
        return found


def fields_of(want: Want) -> dict[str, Any]:
    return {name: getattr(want, name) for name in want.__struct_fields__}
