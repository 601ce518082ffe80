"""Runs that never were: a queue in memory, workers that only count the time, and somebody who watches.

The queue, the roll, the pace shelf and the watcher are the real ones; only the work is made up, and the clock.
"""

from __future__ import annotations

import heapq
import io
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.presence import WorkerInfo
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import Job, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Settlement
from longshore.pacing.host_rate import HostRate
from longshore.runs.estimate.forecast import Forecast
from longshore.runs.estimate.recorded_runs import Recorder, Recording, read_recording

RUN = "r"
FOREVER = timedelta(days=300)


@dataclass(frozen=True)
class Scenario:
    """A sort of run."""

    name: str
    jobs: int
    seconds: Callable[[random.Random], float]
    """How long an attempt takes."""
    workers: tuple[tuple[float, int], ...] = ((0.0, 4),)
    """From when on there are how many."""
    concurrency: int = 4
    says: bool = True
    """Whether workers say what they can do."""
    fails: float = 0.0
    """The share of attempts that fail and are tried again."""
    backoff: float = 4.0
    hosts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The share of the jobs each host has, and how many it lets through a second."""
    closed: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From when until when a host is closed."""
    later: tuple[float, float] | None = None
    """The share of the jobs, the last, that are of another kind; and how far the kinds differ: the deviation of the
    logarithm of the factor between them, which is drawn anew for each run."""
    adds: Callable[[random.Random, int], int] | None = None
    """How many follow-on jobs one of that depth has."""
    attach: float = 0.0
    """From which share of the run on somebody watches."""


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.queue = MemoryQueue(self.clock)
        self.watch = Forecast(self.queue, RUN, self.clock)
        self.crew: list[WorkerId] = []
        self.busy: dict[WorkerId, int] = {}
        self.under_way: list[tuple[float, int, Lease, float]] = []
        self.turns = dict.fromkeys(scenario.hosts, 0.0)
        self.names = count()
        self.done = 0
        self.total = scenario.jobs
        self.factor = math.exp(self.chance.gauss(0.0, scenario.later[1])) if scenario.later else 1.0

    async def record(self) -> Recording:
        """Play it, and give what a watcher would have recorded."""
        scenario, chance, clock = self.scenario, self.chance, self.clock
        hosts, shares = list(scenario.hosts) or [""], [share for share, _ in scenario.hosts.values()] or [1.0]
        drawn = chance.choices(hosts, shares, k=scenario.jobs)
        first = scenario.jobs * (1 - scenario.later[0]) if scenario.later else scenario.jobs
        for n, host in enumerate(drawn):
            kind = "k" if n < first else "l"
            await self.queue.submit([new_job(kind, {"n": n}, run=RUN, host=host, max_attempts=4)])
        changes, seen = list(scenario.workers), -1.0
        file = io.BytesIO()
        recorder = Recorder(file)
        while True:
            while changes and changes[0][0] <= clock.monotonic():
                await self._resize(changes.pop(0)[1])
            await self._claim()
            share = self.done / self.total
            if share >= scenario.attach and (abs(share - seen) >= 0.02 or share == 1):
                seen = share
                await self._pace()
                recorder.note(await self.watch.look())
            if share == 1:
                break
            await self._step(changes[0][0] if changes else float("inf"))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            path.write_bytes(file.getvalue())
            return read_recording(path)

    async def _resize(self, number: int) -> None:
        while len(self.crew) > number:
            await self.queue.deregister(self.crew.pop())
        while len(self.crew) < number:
            worker = WorkerId.new(f"w{next(self.names)}")
            self.crew.append(worker)
            says = WorkerInfo(run=RUN, busy=0, slots=self.scenario.concurrency)
            info = says if self.scenario.says else WorkerInfo(run=RUN)
            await self.queue.register(worker, FOREVER, info)

    async def _claim(self) -> None:
        now = self.clock.monotonic()
        for worker in self.crew:
            free = self.scenario.concurrency - self.busy.get(worker, 0)
            crowded = {host for host, at in self.turns.items() if at - now > 3 / self.scenario.hosts[host][1]}
            crowded |= {host for host, (since, until) in self.scenario.closed.items() if since <= now < until}
            want = Want(worker=worker, limit=free, lease=FOREVER, run=RUN, without_hosts=frozenset(crowded))
            for lease in await self.queue.claim(want) if free else []:
                host, begin = lease.job.host, now
                if host in self.turns:
                    begin = max(now, self.turns[host])
                    self.turns[host] = begin + 1 / self.scenario.hosts[host][1]
                length = self.scenario.seconds(self.chance)
                end = begin + (length * self.factor if lease.job.kind == "l" else length)
                heapq.heappush(self.under_way, (end, next(self.names), lease, end - now))
                self.busy[worker] = self.busy.get(worker, 0) + 1

    async def _step(self, change: float) -> None:
        now = self.clock.monotonic()
        # Half a second on where all that is left may not begin yet.
        until = min(self.under_way[0][0] if self.under_way else now + 0.5, change)
        if any(at > now for at in self.turns.values()):
            until = min(until, now + 0.5)
        self.clock.advance(max(until - now, 0.0))
        while self.under_way and self.under_way[0][0] <= self.clock.monotonic():
            _, _, lease, seconds = heapq.heappop(self.under_way)
            self.busy[lease.worker] -= 1
            again = self.chance.random() < self.scenario.fails
            last = lease.job.attempt == lease.job.max_attempts
            pause = timedelta(seconds=self.scenario.backoff * 2 ** (lease.job.attempt - 1))
            outcome = Failed(Failure("timeout", "too slow"), pause) if again else self._completed(lease.job)
            await self.queue.settle([Settlement(lease, outcome, seconds)])
            self.done += not again or last

    def _completed(self, job: Job) -> Completed:
        number = self.scenario.adds(self.chance, job.depth) if self.scenario.adds else 0
        self.total += number
        kind = "l" if self.scenario.later else "k"
        more = [new_job(kind, {"more": next(self.names)}, host=job.host, max_attempts=4) for _ in range(number)]
        return Completed(jobs=tuple(more))

    async def _pace(self) -> None:
        now = (await self.queue.read_entries("pace", frozenset())).now
        for host, (_, rate) in self.scenario.hosts.items():
            since, until = self.scenario.closed.get(host, (0.0, 0.0))
            left = until - self.clock.monotonic() if since <= self.clock.monotonic() < until else 0.0
            standing = HostRate(rate=rate, ceiling=rate, since=0.0, grown_at=0.0, closed_until=left and now + left)
            version = (await self.queue.read_entries("pace", frozenset({host}))).get(host).version
            await self.queue.swap_entries("pace", [StateEntry(host, version or ABSENT, msgspec.to_builtins(standing))])


def lognormal(median: float, spread: float) -> Callable[[random.Random], float]:
    """Times of which half are shorter than the median, and some a good deal longer."""
    return lambda chance: median * chance.lognormvariate(0.0, spread)


def heavy(shortest: float, power: float) -> Callable[[random.Random], float]:
    """Times of which a few are very long, up to a timeout."""
    return lambda chance: min(shortest * chance.paretovariate(power), 60 * shortest)


def mixed(short: float, long: float, share: float) -> Callable[[random.Random], float]:
    """Mostly short ones, and some long ones."""
    return lambda chance: (long if chance.random() < share else short) * chance.uniform(0.7, 1.3)
