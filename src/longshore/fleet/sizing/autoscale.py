"""Autoscaling: how many workers the pending work needs, and which workers to start or drain.

Target: one worker for every `per` pending jobs, within the bounds; at least one while any job is claimed, because a
    live worker must take back the leases of a dead one.
Machine: it limits the growth of a fleet, but not below the lower bound, which the user chose, nor below one.
    Memory: a worker is started if the free memory exceeds a tenth of the machine's by the size of the largest worker.
    Below half of that tenth, one worker after the other is drained, and for a while none is started.
    Processors: handlers mostly wait for servers, so eight workers share a processor; while the processors are busy,
    two workers do.
Up: at once, but each round at most doubles the fleet, so that the next round sees the cost of the last step.
Down: to the highest number that was needed during the last minute. Needed is a tenth more than the pending jobs ask
    for, so that a count that swings around a boundary changes nothing. The workers with the highest numbers are
    drained: they finish the jobs they hold.
Given up: a worker that crashed too often keeps its number, or a broken handler would be started for ever.
Idle: if there is nothing to do, nothing is started. A fleet starts with its lower bound, or with one worker.

This module only decides; the supervisor measures, starts and drains.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count, islice

from longshore.clock import Clock, SystemClock
from longshore.errors import UsageError

PER = 1000
"""Pending jobs for each worker, by default."""
HOLD = 60.0
"""Seconds for which fewer workers must have been enough before one is drained."""
WORKER_BYTES = 80 * 2**20
"""The assumed memory of a worker until a larger worker is seen."""
BUSY = 0.85
"""The processors count as busy from this share of their time on."""
_A_PROCESSOR, _A_BUSY_PROCESSOR = 8, 2
_BOUNDS = re.compile(r"(\d{1,6}):(\d{1,6})\Z", re.ASCII)


@dataclass(frozen=True)
class SizeBounds:
    """The fewest and the most workers."""

    lowest: int = 1
    highest: int = 50

    @classmethod
    def parse(cls, text: str, option: str) -> SizeBounds:
        """Return the bounds from text such as `1:50`. Raise `UsageError`, which names `option`, for anything else."""
        found = _BOUNDS.match(text.strip())
        lowest, highest = (int(found[1]), int(found[2])) if found else (0, 0)
        if highest < 1 or lowest > highest:
            raise UsageError(
                f"{option} cannot be '{text}': it takes the fewest and the most workers, such as 1:50 (or 0:50)."
            )
        return cls(lowest, highest)

    def around(self, number: int) -> int:
        """Return the number within the bounds that is nearest to `number`."""
        return max(self.lowest, min(self.highest, number))

    def __str__(self) -> str:
        return f"{self.lowest}:{self.highest}"


@dataclass(frozen=True)
class QueueLoad:
    """The number of jobs for the fleet."""

    pending: int
    claimed: int
    being_submitted: bool = False
    """Whether more jobs are being added."""


@dataclass(frozen=True)
class ScalingPolicy:
    """How many workers a load needs."""

    bounds: SizeBounds = field(default_factory=SizeBounds)
    per: int = PER

    @property
    def first(self) -> int:
        """The number of workers to start with, whatever the state of the machine."""
        return max(self.bounds.lowest, 1)

    def target(self, load: QueueLoad) -> int:
        """Return how many workers this load needs."""
        return self._sized(-(-load.pending // self.per), load)

    def needed(self, load: QueueLoad) -> int:
        """Return how many workers should stay: a tenth more than the load needs."""
        return self._sized(-(-11 * load.pending // (10 * self.per)), load)

    def _sized(self, number: int, load: QueueLoad) -> int:
        return self.bounds.around(max(number, 1 if load.claimed else 0))


@dataclass(frozen=True)
class FleetMembers:
    """The fleet's workers, by number."""

    live: frozenset[int]
    """Workers that run or will run soon, including crashed ones that will be restarted."""
    draining: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()

    @property
    def processes(self) -> int:
        return len(self.live) + len(self.draining)


class Limit(StrEnum):
    """The reason why a fleet is smaller than the load needs."""

    BOUND = "the upper bound"
    MEMORY = "memory"
    PROCESSORS = "the processors"


@dataclass(frozen=True)
class Machine:
    """The resources of the machine."""

    available: int
    total: int
    """Memory, in bytes."""
    processors: int
    busy: float
    """The share of the processors' time in use, 1 being all."""
    workers: tuple[int, ...] = ()
    """The memory of each running worker and its child processes, in bytes."""

    @property
    def short_of_memory(self) -> bool:
        """Whether so little memory is free that a worker must be drained."""
        return self.available < self.total // 20

    def fits_memory(self) -> int:
        """Return how many workers fit into the memory, including those that run."""
        spare = self.available - self.total // 10
        return len(self.workers) + max(spare // max((*self.workers, WORKER_BYTES)), 0)

    def fits_processors(self) -> int:
        """Return how many workers may share the processors."""
        return self.processors * (_A_BUSY_PROCESSOR if self.busy >= BUSY else _A_PROCESSOR)


@dataclass(frozen=True)
class Decision:
    """The workers to start and to drain now, and why."""

    target: int
    """How many workers the load needs."""
    why: str
    start: tuple[int, ...] = ()
    """The numbers of the workers to start."""
    drain: tuple[int, ...] = ()
    """The numbers of the workers to drain."""
    limit: Limit | None = None
    """Why the fleet stays below its target; None if it does not."""


@dataclass
class Scaler:
    """Decides which workers to start or drain. It remembers how many were needed during the last `hold` seconds."""

    policy: ScalingPolicy
    clock: Clock = field(default_factory=SystemClock)
    hold: float = HOLD
    _needed: deque[tuple[float, int]] = field(default_factory=deque)
    _short_at: float | None = None

    def look(self, load: QueueLoad, members: FleetMembers, machine: Machine) -> Decision:
        """Return the decision for the present state. Call this every few seconds."""
        now = self.clock.monotonic()
        self._remember(now, self.policy.needed(load))
        if machine.short_of_memory:
            self._short_at = now
        target = self.policy.target(load)
        missing = target - len(members.live) - len(members.given_up)
        if missing > 0 and load.pending + load.claimed:
            return self._grow(load, members, machine, missing)
        if drain := self._surplus(now, members):
            why = f"no more than {len(members.live) - len(drain)} needed for {self.hold:g} s"
            return Decision(target, why, drain=drain)
        return self._relieve_memory(target, members, machine) or Decision(target, _reason(load, self.policy))

    def _remember(self, now: float, needed: int) -> None:
        self._needed.append((now, needed))
        # Keep one entry that is older than the window: it is the number that was needed when the window began.
        while len(self._needed) > 1 and self._needed[1][0] <= now - self.hold:
            self._needed.popleft()

    def _grow(self, load: QueueLoad, members: FleetMembers, machine: Machine, missing: int) -> Decision:
        target, why = self.policy.target(load), _reason(load, self.policy)
        step = min(missing, max(1, len(members.live), self.policy.bounds.lowest - len(members.live)))
        most, limit = self._most(machine)
        room = max(most - members.processes, 0)
        taken = members.live | members.draining | members.given_up
        free = (number for number in count() if number not in taken)
        start = tuple(islice(free, min(step, room)))
        if room >= step:
            return Decision(target, why, start=start)
        held_back = Decision(target, f"{why}, held back by {limit}", start=start, limit=limit)
        return self._relieve_memory(target, members, machine) or held_back

    def _most(self, machine: Machine) -> tuple[int, Limit]:
        """Return how many processes there may be, and which limit decides that."""
        memory = 0 if self._was_short_of_memory() else machine.fits_memory()
        limits = {
            Limit.BOUND: self.policy.bounds.highest,
            Limit.MEMORY: memory,
            Limit.PROCESSORS: machine.fits_processors(),
        }
        limit = min(limits, key=lambda each: limits[each])
        return max(self.policy.first, limits[limit]), limit

    def _was_short_of_memory(self) -> bool:
        return self._short_at is not None and self.clock.monotonic() - self._short_at < self.hold

    def _surplus(self, now: float, members: FleetMembers) -> tuple[int, ...]:
        """Return the workers that were not needed at any time during the last `hold` seconds."""
        if self._needed[0][0] > now - self.hold:
            return ()
        return _highest(members, len(members.live) - max(needed for _, needed in self._needed))

    def _relieve_memory(self, target: int, members: FleetMembers, machine: Machine) -> Decision | None:
        """Return the decision to drain one worker if memory is short and no worker is draining already."""
        if not machine.short_of_memory or members.draining or len(members.live) <= self.policy.first:
            return None
        why = f"memory is short: {machine.available // 2**20:,} MB of {machine.total // 2**20:,} MB left"
        return Decision(target, why, drain=_highest(members, 1), limit=Limit.MEMORY)


def _reason(load: QueueLoad, policy: ScalingPolicy) -> str:
    return f"{load.pending:,} pending, one worker for each {policy.per:,} within {policy.bounds}"


def _highest(members: FleetMembers, number: int) -> tuple[int, ...]:
    return tuple(sorted(members.live, reverse=True)[: max(number, 0)])
