"""Autoscaling: how many workers the waiting work asks for, and which to start or drain for it.

Target: one worker for every `per` pending jobs, within the bounds; at least one while anything is claimed, because what
    a dead worker held comes back only where somebody is alive to bring it back.
The machine: keeps a fleet from growing, but not below the lower bound, which is the user's word, nor below one.
    Memory: a worker is started where as much as the largest one takes, and a tenth of the machine, is free. Below half
    of that tenth one worker after the other is drained, and for a while none is started.
    Processors: handlers mostly wait for others, so eight workers share a processor; while the processors are busy
    regardless, two do.
Up: at once, but each look at most doubles the fleet, so that the next one sees what the last step cost.
Down: to what was needed at most during the last minute. Needed is a tenth more than what is pending, so that a number
    that swings around a boundary moves nobody. The workers with the highest numbers are drained: they finish what they
    hold.
Given up: a worker that crashed too often keeps its place, or a broken handler would be started for ever.
Idle: where nothing is left to do, nothing is started. A fleet begins with its lower bound, or one, by itself.

Everything here is a value or a decision; who looks, starts and drains is the supervisor.
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
"""Pending jobs for each worker, where nothing else is said."""
HOLD = 60.0
"""Seconds that fewer must have sufficed before any is drained."""
WORKER_BYTES = 80 * 2**20
"""What a worker is taken to need until a larger one is seen."""
BUSY = 0.85
"""The share of the processors' time from which on they count as busy."""
_A_PROCESSOR, _A_BUSY_PROCESSOR = 8, 2
_BOUNDS = re.compile(r"(\d{1,6}):(\d{1,6})\Z", re.ASCII)


@dataclass(frozen=True)
class SizeBounds:
    """The fewest and the most workers."""

    lowest: int = 1
    highest: int = 50

    @classmethod
    def parse(cls, text: str, option: str) -> SizeBounds:
        """Read `1:50`, the value of that option. `UsageError` for anything else."""
        found = _BOUNDS.match(text.strip())
        lowest, highest = (int(found[1]), int(found[2])) if found else (0, 0)
        if highest < 1 or lowest > highest:
            raise UsageError(
                f"{option} cannot be '{text}': it takes the fewest and the most workers, such as 1:50 (or 0:50)."
            )
        return cls(lowest, highest)

    def around(self, number: int) -> int:
        """The number within the bounds that is nearest."""
        return max(self.lowest, min(self.highest, number))

    def __str__(self) -> str:
        return f"{self.lowest}:{self.highest}"


@dataclass(frozen=True)
class QueueLoad:
    """The work there is for the fleet."""

    pending: int
    claimed: int


@dataclass(frozen=True)
class ScalingPolicy:
    """How many workers for how much work."""

    bounds: SizeBounds = field(default_factory=SizeBounds)
    per: int = PER

    @property
    def first(self) -> int:
        """How many workers to begin with, whatever the machine says."""
        return max(self.bounds.lowest, 1)

    def target(self, load: QueueLoad) -> int:
        """How many workers this much work asks for."""
        return self._sized(-(-load.pending // self.per), load)

    def needed(self, load: QueueLoad) -> int:
        """How many of the workers there are should stay: a tenth more than asked for."""
        return self._sized(-(-11 * load.pending // (10 * self.per)), load)

    def _sized(self, number: int, load: QueueLoad) -> int:
        return self.bounds.around(max(number, 1 if load.claimed else 0))


@dataclass(frozen=True)
class FleetMembers:
    """The fleet's workers, by number."""

    live: frozenset[int]
    """Running or about to, a crashed one that will be started again among them."""
    draining: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()

    @property
    def processes(self) -> int:
        return len(self.live) + len(self.draining)


class Limit(StrEnum):
    """What keeps a fleet smaller than the work asks for."""

    BOUND = "the upper bound"
    MEMORY = "memory"
    PROCESSORS = "the processors"


@dataclass(frozen=True)
class Machine:
    """What the machine has to give."""

    available: int
    total: int
    """Memory, in bytes."""
    processors: int
    busy: float
    """The share of the processors' time in use, 1 being all."""
    workers: tuple[int, ...] = ()
    """The memory of each worker that runs, with what it started."""

    @property
    def short_of_memory(self) -> bool:
        """Whether workers must go."""
        return self.available < self.total // 20

    def fits_memory(self) -> int:
        """How many workers it can hold, with those that run."""
        spare = self.available - self.total // 10
        return len(self.workers) + max(spare // max((*self.workers, WORKER_BYTES)), 0)

    def fits_processors(self) -> int:
        """How many workers may share the processors."""
        return self.processors * (_A_BUSY_PROCESSOR if self.busy >= BUSY else _A_PROCESSOR)


@dataclass(frozen=True)
class Decision:
    """What to do now, and why."""

    target: int
    """How many workers the work asks for."""
    why: str
    start: tuple[int, ...] = ()
    """The numbers of the workers to start."""
    drain: tuple[int, ...] = ()
    """The numbers of the workers to drain."""
    limit: Limit | None = None
    """What keeps the fleet below its target; None where nothing does."""


@dataclass
class Scaler:
    """Decides, each time it is asked, which workers to start or drain. It remembers what was needed lately."""

    policy: ScalingPolicy
    clock: Clock = field(default_factory=SystemClock)
    hold: float = HOLD
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _short_at: float | None = None

    def look(self, load: QueueLoad, crew: FleetMembers, machine: Machine) -> Decision:
        """What to do, going by what there is now. To be asked every few seconds."""
        now = self.clock.monotonic()
        self._note(now, self.policy.needed(load))
        if machine.short_of_memory:
            self._short_at = now
        target = self.policy.target(load)
        missing = target - len(crew.live) - len(crew.given_up)
        if missing > 0 and load.pending + load.claimed:
            return self._grown(load, crew, machine, missing)
        if drain := self._surplus(now, crew):
            why = f"no more than {len(crew.live) - len(drain)} needed for {self.hold:g} s"
            return Decision(target, why, drain=drain)
        return self._relieved(target, crew, machine) or Decision(target, _asked(load, self.policy))

    def _note(self, now: float, needed: int) -> None:
        self._seen.append((now, needed))
        # One that is older than the window is kept: it says what was needed when the window began.
        while len(self._seen) > 1 and self._seen[1][0] <= now - self.hold:
            self._seen.popleft()

    def _grown(self, load: QueueLoad, crew: FleetMembers, machine: Machine, missing: int) -> Decision:
        target, why = self.policy.target(load), _asked(load, self.policy)
        step = min(missing, max(1, len(crew.live), self.policy.bounds.lowest - len(crew.live)))
        most, limit = self._most(machine)
        room = max(most - crew.processes, 0)
        taken = crew.live | crew.draining | crew.given_up
        free = (number for number in count() if number not in taken)
        start = tuple(islice(free, min(step, room)))
        if room >= step:
            return Decision(target, why, start=start)
        held_back = Decision(target, f"{why}, held back by {limit}", start=start, limit=limit)
        return self._relieved(target, crew, machine) or held_back

    def _most(self, machine: Machine) -> tuple[int, Limit]:
        """How many processes there may be, and what says so."""
        memory = 0 if self._was_short() else machine.fits_memory()
        limits = {
            Limit.BOUND: self.policy.bounds.highest,
            Limit.MEMORY: memory,
            Limit.PROCESSORS: machine.fits_processors(),
        }
        limit = min(limits, key=lambda each: limits[each])
        return max(self.policy.first, limits[limit]), limit

    def _was_short(self) -> bool:
        return self._short_at is not None and self.clock.monotonic() - self._short_at < self.hold

    def _surplus(self, now: float, crew: FleetMembers) -> tuple[int, ...]:
        """Those that were not needed at any time for long enough."""
        if self._seen[0][0] > now - self.hold:
            return ()
        return _highest(crew, len(crew.live) - max(needed for _, needed in self._seen))

    def _relieved(self, target: int, crew: FleetMembers, machine: Machine) -> Decision | None:
        """One fewer, where memory is short and nobody is about to leave anyway."""
        if not machine.short_of_memory or crew.draining or len(crew.live) <= self.policy.first:
            return None
        why = f"memory is short: {machine.available // 2**20:,} MB of {machine.total // 2**20:,} MB left"
        return Decision(target, why, drain=_highest(crew, 1), limit=Limit.MEMORY)


def _asked(load: QueueLoad, policy: ScalingPolicy) -> str:
    return f"{load.pending:,} pending, one worker for each {policy.per:,} within {policy.bounds}"


def _highest(crew: FleetMembers, number: int) -> tuple[int, ...]:
    return tuple(sorted(crew.live, reverse=True)[: max(number, 0)])
