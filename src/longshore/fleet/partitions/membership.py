"""Membership: a worker's place among the workers of its run, and the partitions that follow from it.

Authority: the presence of workers (`longshore.extensions.presence`). Each member writes its number there, and everyone
    derives from the numbers who has which partitions. Nobody hands them out, and workers on several machines need not
    know of one another.
Heartbeat: every third of a lease. A member that came or went is noticed with the next one.
Numbers: a worker of a fleet has its number in the fleet, if no other label has it; anyone else the lowest one free. Two
    that took one number at the same moment are told apart by their labels, by everyone alike. A worker that was started
    again under its label has its number again.
The start of a fleet: for the length of a lease its workers count as present whether they are or not, so that the first
    to come does not take what the next will give it a moment later.

Helping (the default): a member claims from its own partitions first. When nothing there can be claimed it helps the
    fullest other, and then whoever else has something. Members that see the roll differently for a moment do no harm.
Strict: own partitions only, and no two members hold jobs of one partition at the same time, whatever they see:
    - what a member has, or is about to take, it declares on the roll;
    - it takes a partition only when it has declared it and has seen, afterwards, that nobody else declares it. Of two
      who declare at the same moment at least one sees the other; the one whose name comes first tries again;
    - it gives a partition up by declaring it no longer, after the last job of it in hand is settled;
    - one that has not been heard of for a lease has given up everything, as it has lost its jobs.
    So a partition that changes hands is without a worker for two heartbeats at most, and what a dead worker had for one
    heartbeat after its lease.

Jobs without a partition belong to nobody and are for everyone, unless the worker is limited to certain partitions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.find import require
from longshore.extensions.presence import MembershipInfo, WorkerInfo, WorkerRegistry
from longshore.fleet.partitions.assignment import Assigns, assign
from longshore.lease import Lease, Want, WorkerId
from longshore.queue import Queue
from longshore.system.first_of import first_of
from longshore.worker.loop.partition_scope import Partitions, Take

_BEATS_A_LEASE = 3
_HELP_SECONDS = 1.0
"""How long a helper goes on helping before it looks at its own partitions, and for the fullest, again."""
_NO_PARTITION = frozenset({""})

log = structlog.get_logger()


class PartitionMode(StrEnum):
    """What a worker does when its own partitions have nothing for it."""

    HELP = "help"
    """Helps the fullest."""
    STRICT = "strict"
    """Waits: a partition is one worker's alone."""


@dataclass(frozen=True)
class Partitioning:
    """What a worker of a fleet is told about partitions; its scope is made of it when it starts."""

    mode: PartitionMode = PartitionMode.HELP
    number: int | None = None
    """The worker's number in its fleet; None for a worker on its own."""
    fleet_size: int = 0
    """How many workers the fleet has, of which this is one."""
    assigns: Assigns = assign
    """How partitions are shared out: `assign`, or a fixed table's."""
    known: frozenset[str] = frozenset()
    """Partitions that are shared out whether there are jobs of them yet or not."""
    info: WorkerInfo = field(default_factory=WorkerInfo)
    """The other information that the worker publishes about itself."""

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> Membership:
        """Be a member from now on. `UsageError` on a queue that does not know which workers are alive."""
        lacking = (
            "does not know which workers are alive, so they cannot share out partitions. "
            "Give each worker its own with --partitions."
        )
        return Membership(self, want, queue, require(queue, WorkerRegistry, lacking), clock, busy)


class _Member(msgspec.Struct, frozen=True):
    worker: WorkerId
    words: MembershipInfo


class Membership:
    """One worker's place among the others: a `longshore.worker.loop.partition_scope.PartitionScope`.

    The partitions shared out are those the worker is limited to, or else those that are known beforehand and those that
    its run has jobs of.
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
        self._plan = plan
        self._want = want
        self._queue = queue
        self._registry = registry
        self._clock = clock
        self._busy = busy
        self._strict = plan.mode is PartitionMode.STRICT
        self._number: int | None = None
        self._own: frozenset[str] = frozenset()
        self._joined_at = clock.monotonic()
        self._beat_at: tuple[float, float] | None = None
        self._helped: Partitions = None
        self._help_until = float("-inf")
        self._retired = False
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()
        # A claim and a heartbeat take turns: nothing may be given up while a claim for it is on its way.
        self._turn = asyncio.Lock()

    @property
    def number(self) -> int | None:
        """The worker's number among the members; None before the first heartbeat, and when it has retired."""
        return self._number

    @property
    def own(self) -> frozenset[str]:
        """The partitions that are this worker's own now. In strict mode nobody else holds any of them."""
        return self._own

    @property
    def reach(self) -> Partitions:
        """Where work for this worker may appear."""
        return self._and_homeless(self._own) if self._strict else self._want.partitions

    async def claim(self, take: Take) -> list[Lease]:
        """Try own partitions, then, unless strict, the fullest other and all others, until `take` brings something."""
        async with self._turn:
            if not self._current():
                await self._beat()
            if self._clock.monotonic() < self._help_until and (leases := await take(self._helped)):
                return leases
            self._help_until = float("-inf")
            own = self._and_homeless(self._own)
            if own and (leases := await take(own)):
                return leases
            return [] if self._strict else await self._help(take)

    async def changed(self) -> None:
        """Return when `reach` has changed since this was last awaited."""
        await self._changed.wait()
        self._changed.clear()

    async def beat(self) -> None:
        """A heartbeat: be on the roll, see who else is, and derive what is this worker's own."""
        async with self._turn:
            await self._beat()

    async def keep(self) -> None:
        """Beat every third of a lease, until cancelled."""
        while True:
            self._hurry.clear()
            pause = self._want.lease.total_seconds() / _BEATS_A_LEASE
            await first_of(self._clock.sleep(pause), self._hurry.wait())
            try:
                await self.beat()
            except QueueUnavailableError as error:
                log.debug("Queue unavailable while looking who is there", error=str(error))  # the claimer says it aloud

    def retire(self) -> None:
        """Leave the partitions to the others; in strict mode each as soon as nothing of it is in hand."""
        self._retired = True
        self._hurry.set()

    async def close(self) -> None:
        """Be off the roll."""
        await self._registry.deregister(self._want.worker)

    # Claiming

    def _and_homeless(self, partitions: frozenset[str]) -> frozenset[str]:
        return partitions | _NO_PARTITION if self._want.partitions is None else partitions

    async def _help(self, take: Take) -> list[Lease]:
        own, pending = self._and_homeless(self._own), Counter[str]()
        for lane in await self._queue.stats(self._want.run):
            if lane.partition not in own and self._want.matches(lane.run, lane.kind, lane.partition):
                pending[lane.partition] += lane.pending
        # Not all that is pending can be claimed now, so the fullest may have nothing while another has.
        fullest = [frozenset({partition}) for partition, number in pending.most_common(1) if number]
        for partitions in (*fullest, self._want.partitions):
            if leases := await take(partitions):
                self._helped = partitions
                self._help_until = self._clock.monotonic() + _HELP_SECONDS
                return leases
        return []

    # The heartbeat

    def _current(self) -> bool:
        """Whether the last heartbeat is younger than a lease, so that what it found still holds.

        By both clocks: one of them stands still while the machine sleeps, the other may be set.
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
            self._own = frozenset()  # whatever was ours, somebody else may have it by now
        others = await self._others()
        if self._retired:
            self._number, due = None, frozenset[str]()
        else:
            self._number, due = await self._due(others)
        if self._strict:
            await self._change_hands(due, others)
        else:
            await self._register(frozenset())
            self._own = due
        self._beat_at = began
        if self.reach != reach:
            self._changed.set()

    async def _others(self) -> list[_Member]:
        """Who is on the roll for the same run, besides this worker."""
        members = [
            _Member(each.worker, each.info.membership)
            for each in await self._registry.present_workers()
            if each.worker != self._want.worker and each.info.membership is not None
        ]
        return [member for member in members if member.words.run == self._want.run]

    async def _due(self, others: Iterable[_Member]) -> tuple[int, frozenset[str]]:
        """This worker's number, and the partitions that are due to it, going by who else is there."""
        label = self._want.worker.label
        claims: dict[str, int] = {} if self._number is None else {label: self._number}
        for each in others:
            if each.words.number is not None:
                known = claims.get(each.worker.label, each.words.number)
                claims[each.worker.label] = min(known, each.words.number)
        claims.setdefault(label, self._free(claims))
        numbers = _told_apart(claims)
        alive = set(numbers.values())
        if self._clock.monotonic() - self._joined_at < self._want.lease.total_seconds():
            alive |= set(range(self._plan.fleet_size))
        shares = self._plan.assigns(await self._partitions(), alive)
        return numbers[label], frozenset(shares[numbers[label]])

    def _free(self, claims: Mapping[str, int]) -> int:
        taken = set(claims.values())
        if self._plan.number is not None and self._plan.number not in taken:
            return self._plan.number
        return next(number for number in count() if number not in taken)

    async def _partitions(self) -> frozenset[str]:
        if self._want.partitions is not None:
            return self._want.partitions
        found = frozenset(lane.partition for lane in await self._queue.stats(self._want.run))
        return (found | self._plan.known) - _NO_PARTITION

    async def _change_hands(self, due: frozenset[str], others: Iterable[_Member]) -> None:
        """In strict mode: give up what is not due, take what is due and free."""
        # Two that wait for each other's declaration to go away would wait for ever, so the one whose name comes first
        # does not.
        before = _declared(each for each in others if _name(each.worker) < _name(self._want.worker))
        had = self._own
        staying = due & had
        hoped_for = due - had - before
        # From here on nothing is claimed from what is given up, but what is in hand of it is still this worker's.
        self._own = staying
        await self._register(staying | hoped_for | self._busy() - _NO_PARTITION)
        if hoped_for:
            self._own = staying | (hoped_for - _declared(await self._others()))

    async def _register(self, declared: frozenset[str]) -> None:
        words = MembershipInfo(run=self._want.run, number=self._number, partitions=tuple(sorted(declared)))
        info = msgspec.structs.replace(self._plan.info, membership=words)
        await self._registry.register(self._want.worker, self._want.lease, info)


def _declared(members: Iterable[_Member]) -> frozenset[str]:
    return frozenset(partition for each in members for partition in each.words.partitions)


def _name(worker: WorkerId) -> tuple[str, str]:
    return worker.label, worker.incarnation


def _told_apart(claims: Mapping[str, int]) -> dict[str, int]:
    """The number of each label: the one it says, or, where a label before it has that one, the lowest free."""
    numbers: dict[int, str] = {}
    late = []
    for label in sorted(claims):
        if claims[label] in numbers:
            late.append(label)
        else:
            numbers[claims[label]] = label
    free = (number for number in count() if number not in claims.values())
    numbers |= dict(zip(free, late, strict=False))
    return {label: number for number, label in numbers.items()}
