"""Membership: a worker's number among the workers of its run, and the partitions that follow from it.

Authority: the worker registry (`longshore.extensions.presence`). Each member writes there its number and what it can
    take, and every member derives from that which worker has which partitions (see `reach`). No coordinator assigns
    them, and workers on several machines need no connection to one another.
Heartbeat: every third of a lease. The next heartbeat notices a member that joined or left.
Numbers: a worker of a fleet has its number in the fleet, if no other label has it; any other worker has the lowest free
    number. If two workers took one number at the same moment, all members order them by label in the same way. A worker
    that restarts under its label gets its number again.
Start of a fleet: for the length of a lease all its workers count as present, so that the first worker does not take
    partitions that it would have to give up a moment later.

Help (the default): a member claims from its own partitions first. If these have no job to claim, it helps the partition
    with the most pending jobs, and then any other. Members may read different states of the registry without harm.
Strict: a member claims from its own partitions only, and no two members hold jobs of one partition at the same time,
    whatever they read:
    - a member declares in the registry which partitions it has or is about to take;
    - it takes a partition only after it declared it and then read that no other member that can take the same jobs
      declares it. If two declare at the same moment, at least one reads the other's declaration and does not take it.
      If neither takes it, only the member whose name sorts first declares it at the next heartbeat;
    - it gives a partition up by no longer declaring it, after the last job of it that it holds is settled;
    - a member without a heartbeat for a lease has given up everything, because it has lost its leases too.
    So a partition that moves is without a worker for two heartbeats at most, and the partitions of a dead worker for
    one heartbeat after its lease.

Jobs without a partition may be claimed by every worker, unless the worker is limited to certain partitions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import PassingQueueError
from longshore.extensions.find import require
from longshore.extensions.presence import MembershipInfo, WorkerInfo, WorkerRegistry
from longshore.fleet.partitions.assignment import Assigns, assign
from longshore.fleet.partitions.reach import Reach, groups
from longshore.lease import Lease, Want, WorkerId
from longshore.queue import Count, Queue
from longshore.system.first_of import first_of
from longshore.worker.loop.partition_scope import Partitions, Take

_BEATS_A_LEASE = 3
_HELP_SECONDS = 1.0
"""How long a member helps before it looks at its own partitions, and for the fullest one, again."""
_NO_PARTITION = frozenset({""})

log = structlog.get_logger()


class PartitionMode(StrEnum):
    """The behaviour of a worker when its own partitions have no job to claim."""

    HELP = "help"
    """It claims from the partition with the most pending jobs."""
    STRICT = "strict"
    """It waits: only one worker claims from a partition."""


@dataclass(frozen=True)
class Partitioning:
    """The partition options of a worker; `join` makes the worker's scope from them when it starts."""

    mode: PartitionMode = PartitionMode.HELP
    number: int | None = None
    """The worker's number in its fleet; None for a single worker."""
    fleet_size: int = 0
    """The number of workers in the fleet, including this one."""
    assigns: Assigns = assign
    """How partitions are assigned: `assign`, or the method of a fixed table."""
    known: frozenset[str] = frozenset()
    """Partitions that are assigned even while they have no jobs."""
    info: WorkerInfo = field(default_factory=WorkerInfo)
    """The other information that the worker publishes about itself."""

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> Membership:
        """Return the worker's membership. Raise `UsageError` if the queue has no worker registry."""
        lacking = (
            "does not know which workers are alive, so they cannot share out partitions. "
            "Give each worker its own with --partitions."
        )
        return Membership(self, want, queue, require(queue, WorkerRegistry, lacking), clock, busy)


class _Member(msgspec.Struct, frozen=True):
    worker: WorkerId
    entry: MembershipInfo
    reach: Reach


class Membership:
    """The partition scope of one member: a `longshore.worker.loop.partition_scope.PartitionScope`.

    The partitions to assign are those the worker is limited to; without a limit, those that are known beforehand and
    those that have jobs in the worker's run.
    """

    def __init__(
        self,
        plan: Partitioning,
        want: Want,
        queue: Queue,
        registry: WorkerRegistry,
        clock: Clock,
        busy: Callable[[], frozenset[str]],
    ) -> None:
        """`busy` returns the partitions of the jobs that the worker holds."""
        self._plan = plan
        self._want = want
        self._can_take = Reach.of(want)
        self._queue = queue
        self._registry = registry
        self._clock = clock
        self._busy = busy
        self._strict = plan.mode is PartitionMode.STRICT
        self._number: int | None = None
        self._own: frozenset[str] = frozenset()
        self._joined_at = clock.monotonic()
        self._beat_at: tuple[float, float] | None = None
        """When the last heartbeat began, by the monotonic and by the wall clock."""
        self._helped: Partitions = None
        self._help_until = float("-inf")
        self._retired = False
        self._beat_now = asyncio.Event()
        self._changed = asyncio.Event()
        # A claim and a heartbeat exclude each other: no partition may be given up during a claim from it.
        self._lock = asyncio.Lock()

    @property
    def number(self) -> int | None:
        """The worker's number among the members; None before the first heartbeat, and when it has retired."""
        return self._number

    @property
    def own(self) -> frozenset[str]:
        """The partitions that this worker has now. In strict mode no other worker has any of them."""
        return self._own

    @property
    def reach(self) -> Partitions:
        """The partitions in which work for this worker may appear."""
        return self._with_unpartitioned(self._own) if self._strict else self._want.partitions

    async def claim(self, take: Take) -> list[Lease]:
        """Return what `take` claims from the own partitions; if nothing, and not strict, from the others."""
        async with self._lock:
            if not self._current():
                await self._beat()
            if self._clock.monotonic() < self._help_until and (leases := await take(self._helped)):
                return leases
            self._help_until = float("-inf")
            own = self._with_unpartitioned(self._own)
            if own and (leases := await take(own)):
                return leases
            return [] if self._strict else await self._help(take)

    async def changed(self) -> None:
        """Return when `reach` has changed since this last returned."""
        await self._changed.wait()
        self._changed.clear()

    async def beat(self) -> None:
        """Write a heartbeat: register, read the other members, and derive the partitions of this worker."""
        async with self._lock:
            await self._beat()

    async def keep(self) -> None:
        """Write a heartbeat every third of a lease, until cancelled."""
        while True:
            self._beat_now.clear()
            pause = self._want.lease.total_seconds() / _BEATS_A_LEASE
            await first_of(self._clock.sleep(pause), self._beat_now.wait())
            try:
                await self.beat()
            except PassingQueueError as error:
                # Only at debug level: the claimer reports it.
                log.debug("Queue unavailable while reading the worker registry", error=str(error))

    def retire(self) -> None:
        """Leave the partitions to the others; in strict mode each one when the worker holds no job of it."""
        self._retired = True
        self._beat_now.set()

    async def close(self) -> None:
        """Remove this worker from the registry."""
        await self._registry.deregister(self._want.worker)

    # Claiming

    def _with_unpartitioned(self, partitions: frozenset[str]) -> frozenset[str]:
        return partitions | _NO_PARTITION if self._want.partitions is None else partitions

    async def _help(self, take: Take) -> list[Lease]:
        own, pending = self._with_unpartitioned(self._own), Counter[str]()
        for lane in await self._queue.stats(self._want.run):
            if lane.partition not in own and self._want.matches(lane.run, lane.kind, lane.partition):
                pending[lane.partition] += lane.pending
        # Some pending jobs cannot be claimed now, so the fullest partition may have none while another has.
        fullest = [frozenset({partition}) for partition, number in pending.most_common(1) if number]
        for partitions in (*fullest, self._want.partitions):
            if leases := await take(partitions):
                self._helped = partitions
                self._help_until = self._clock.monotonic() + _HELP_SECONDS
                return leases
        return []

    # The heartbeat

    def _current(self) -> bool:
        """Return whether the last heartbeat is younger than a lease, so that its result is still valid.

        By both clocks: one may stop while the machine sleeps, and the other may be set.
        """
        if self._beat_at is None:
            return False
        now = (self._clock.monotonic(), self._clock.now())
        lease = self._want.lease.total_seconds()
        return all(abs(here - then) < lease for here, then in zip(now, self._beat_at, strict=True))

    async def _beat(self) -> None:
        began = (self._clock.monotonic(), self._clock.now())
        reach = self.reach
        if not self._current():
            self._own = frozenset()  # another worker may have them by now
        others = await self._others()
        if self._retired:
            self._number, assigned = None, frozenset[str]()
        else:
            self._number, assigned = await self._assigned(others)
        if self._strict:
            await self._exchange_partitions(assigned, others)
        else:
            await self._register(frozenset())
            self._own = assigned
        self._beat_at = began
        if self.reach != reach:
            self._changed.set()

    async def _others(self) -> list[_Member]:
        """Return the other members of the same run; if some work on every run, all members."""
        members = [
            _Member(each.worker, each.info.membership, Reach.declared(each.info))
            for each in await self._registry.present_workers()
            if each.worker != self._want.worker and each.info.membership is not None
        ]
        runs = {self._want.run, *(member.reach.run for member in members)}
        return [member for member in members if None in runs or member.reach.run == self._want.run]

    async def _assigned(self, others: Iterable[_Member]) -> tuple[int, frozenset[str]]:
        """Return this worker's number, and the partitions that the present members leave to it."""
        label = self._want.worker.label
        registered: dict[str, int] = {} if self._number is None else {label: self._number}
        reaches: dict[str, Reach] = {}
        for each in others:
            if each.entry.number is not None:
                # A restarted worker may be registered twice under its label; the lower number counts.
                known = registered.get(each.worker.label, each.entry.number)
                registered[each.worker.label] = min(known, each.entry.number)
                reaches[each.worker.label] = each.reach
        registered.setdefault(label, self._free(registered))
        reaches[label] = self._can_take
        numbers = _distinct_numbers(registered)
        own = numbers[label]
        alive = {number: reaches[each] for each, number in numbers.items()}
        if self._clock.monotonic() - self._joined_at < self._want.lease.total_seconds():
            alive = dict.fromkeys(range(self._plan.fleet_size), self._can_take) | alive
        counts = await self._counts(alive.values())
        shared = groups(self._partitions(counts), own, alive, counts)
        shares = [self._plan.assigns(partitions, members)[own] for members, partitions in shared.items()]
        return own, frozenset[str]().union(*shares)

    def _free(self, registered: Mapping[str, int]) -> int:
        taken = set(registered.values())
        if self._plan.number is not None and self._plan.number not in taken:
            return self._plan.number
        return next(number for number in count() if number not in taken)

    async def _counts(self, reaches: Collection[Reach]) -> Sequence[Count]:
        """Return the counts of the runs that these members work on; nothing if the assignment does not need them."""
        own = self._can_take
        alike = all((reach.run, reach.kinds) == (own.run, own.kinds) for reach in reaches)
        if alike and own.partitions is not None:
            return ()
        return await self._queue.stats(own.run if all(reach.run == own.run for reach in reaches) else None)

    def _partitions(self, counts: Iterable[Count]) -> frozenset[str]:
        if self._want.partitions is not None:
            return self._want.partitions
        found = frozenset(count.partition for count in counts if self._want.run in {None, count.run})
        return (found | self._plan.known) - _NO_PARTITION

    async def _exchange_partitions(self, assigned: frozenset[str], others: Iterable[_Member]) -> None:
        """In strict mode: give up partitions that are no longer assigned, and take assigned ones that are free."""
        # If two members declare a partition, the one whose name sorts first goes on declaring it, and the other stops.
        # If both stopped, or neither, it could happen that no member ever takes it.
        left_to_others = self._declared(each for each in others if _name(each.worker) < _name(self._want.worker))
        had = self._own
        kept = assigned & had
        wanted = assigned - had - left_to_others
        # From here on this worker claims nothing from the partitions it gives up, but may still hold jobs of them.
        self._own = kept
        await self._register(kept | wanted | self._busy() - _NO_PARTITION)
        if wanted:
            self._own = kept | (wanted - self._declared(await self._others()))

    def _declared(self, members: Iterable[_Member]) -> frozenset[str]:
        """Return the partitions that these members declare, if they can take the same jobs as this one."""
        met = (each for each in members if each.reach.meets(self._can_take))
        return frozenset(partition for each in met for partition in each.entry.partitions)

    async def _register(self, declared: frozenset[str]) -> None:
        entry = MembershipInfo(run=self._want.run, number=self._number, partitions=tuple(sorted(declared)))
        kinds, limits = self._want.kinds, self._want.partitions
        info = msgspec.structs.replace(
            self._plan.info,
            membership=entry,
            kinds=None if kinds is None else tuple(sorted(kinds)),
            partitions=None if limits is None else tuple(sorted(limits)),
        )
        await self._registry.register(self._want.worker, self._want.lease, info)


def _name(worker: WorkerId) -> tuple[str, str]:
    return worker.label, worker.incarnation


def _distinct_numbers(registered: Mapping[str, int]) -> dict[str, int]:
    """Return the number of each label: its own, or the lowest free one if a label that sorts before it has that one."""
    numbers: dict[int, str] = {}
    duplicates = []
    for label in sorted(registered):
        if registered[label] in numbers:
            duplicates.append(label)
        else:
            numbers[registered[label]] = label
    free = (number for number in count() if number not in registered.values())
    numbers |= dict(zip(free, duplicates, strict=False))
    return {label: number for number, label in numbers.items()}
