"""A simulated world: a host with a limiter, a network, and processes that share what they learn through a slow store.

Everything happens in virtual time and is drawn from a seed, so a run is repeated exactly. `play` runs a policy in a
world; `best_possible` is the number of requests that an oracle gets through, which knows the limiter.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.pacing.worlds.limiters import EXACT, Capricious, HostLimiter

from longshore.pacing.host_rate import AnswerCounts

EARLY = 0.0005
_SHARE_SECONDS = 2.0


class View(NamedTuple):
    """What a process needs to know of the state of a policy."""

    next_free: float
    """No request may be sent before this instant, except in slots that are reserved."""
    voided_at: float
    """Slots reserved before this instant are void."""
    interval: float
    lead: float
    """How many seconds ahead slots are reserved."""
    catch_up: float
    """Seconds by which a slot may be late; 0 if the host allows no bursts."""
    prompt: bool = False
    """Whether good answers are written at once."""
    slots: int = 0
    """Slots ever handed out."""
    cap: float = math.inf
    """How many requests of all processes may be in flight."""


class Pace(Protocol):
    """A policy: old state and events make the new state."""

    shared: bool
    """Whether all processes share one state, or each has its own."""

    def first(self, now: float) -> Any: ...
    def fold(self, state: Any, answers: AnswerCounts, now: float) -> Any: ...
    def reserve(self, state: Any, now: float, count: int, since: float) -> tuple[Any, list[float]]: ...
    def view(self, state: Any) -> View: ...


@dataclass
class World:
    """What a seed has drawn. A limiter has a state, so a world makes a new one for each run."""

    seed: int
    kind: str
    text: str
    seconds: float
    limiter: Callable[[random.Random], HostLimiter]
    service: float = 0.005
    """Seconds for which the host works on a request."""
    spread: float = 0.0
    """How much these seconds vary, as a share of them."""
    at_once: int = 0
    """The host refuses requests beyond this number in flight; 0 if it does not."""
    servers: int = 0
    """The host works on this number of requests at once, and the others wait; 0 for any number."""
    queue: int = 0
    """It refuses requests when this number waits; 0 for any number."""
    status: int = 429
    retry_after: str = "none"
    """`none`, `right` or `wrong`."""
    noise: float = 0.0
    there: float = 0.01
    """Seconds that a request takes to the host, and an answer back."""
    jitter: float = 0.001
    lateness: float = 0.0005
    """The mean by which event loops are late."""
    stall: float = 0.0
    """How long an event loop stalls, once in a few seconds."""
    processes: int = 1
    executors: int = 16
    store: float = 0.001
    """Seconds to the store and back."""


@dataclass
class Run:
    """What came of a policy in a world."""

    accepted: int = 0
    refused: int = 0
    last_arrival: float = 0.0
    longest_gap: float = 0.0
    """The longest time without a request, beyond what Retry-After asked for."""
    obeyed_until: float = 0.0
    latency: float = 0.0
    """The sum of the seconds that the host took for accepted requests."""
    by_second: list[int] = field(default_factory=list)
    refused_by_second: list[int] = field(default_factory=list)


class Host:
    """The host of a world."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self.limiter = world.limiter(chance)
        self._in_flight: list[float] = []
        self._free: list[float] = [0.0] * world.servers
        self._waiting: deque[float] = deque()

    def ask(self, now: float, client: int) -> tuple[bool, float, float]:
        """Return whether a request is accepted, the seconds it takes, and those to wait if it is not."""
        world = self._world
        in_flight = self._in_flight
        while in_flight and in_flight[0] <= now:
            heapq.heappop(in_flight)
        if isinstance(self.limiter, Capricious) and self.limiter.refuses_this():
            return False, 0.002, 0.0
        free_at = self.limiter.free_at(now, client)
        if free_at > now + EXACT:
            self.limiter.refuse(now, client)
            return False, 0.002, free_at - now
        if world.at_once and len(in_flight) >= world.at_once:
            self.limiter.refuse(now, client)
            return False, 0.002, 0.0
        work = world.service * (1 + world.spread * (self._chance.expovariate(1.0) - 1))
        begin = now
        if world.servers:
            while self._waiting and self._waiting[0] <= now:
                self._waiting.popleft()
            if world.queue and len(self._waiting) >= world.queue:
                self.limiter.refuse(now, client)
                return False, 0.002, self._waiting[0] - now
            begin = max(heapq.heappop(self._free), now)
            heapq.heappush(self._free, begin + work)
            if begin > now:
                self._waiting.append(begin)
        self.limiter.accept(now, client)
        heapq.heappush(in_flight, begin + work)
        return True, begin + work - now, 0.0


class _Process:
    __slots__ = (
        "all_slots",
        "answers",
        "exchanging",
        "in_flight",
        "last_use",
        "look_at",
        "own_slots",
        "share",
        "share_at",
        "slots",
        "state",
        "view",
        "write_now",
    )

    def __init__(self, view: View, state: Any) -> None:
        self.slots: deque[float] = deque()
        self.answers = AnswerCounts()
        self.exchanging = False
        self.in_flight = 0
        self.last_use = -1.0
        self.look_at = math.inf
        self.write_now = False
        self.view = view
        self.state = state
        self.share, self.share_at, self.own_slots, self.all_slots = 1.0, 0.0, 0, 0


class Simulation:
    """Processes that ask the host of a world as fast as a policy lets them."""

    def __init__(self, world: World, pace: Pace) -> None:
        self.world, self.pace, self.run = world, pace, Run()
        self._chance = random.Random(world.seed * 7919 + 1)
        self._host = Host(world, random.Random(world.seed * 7919 + 2))
        self._shared = pace.first(0.0)
        self._store_free = 0.0
        self._events: list[tuple[float, int, int, int, Any]] = []
        self._count = 0
        self._stalls = [self._chance.uniform(0, 5) for _ in range(world.processes)]
        view = pace.view(self._shared)
        self._processes = [_Process(view, pace.first(0.0)) for _ in range(world.processes)]
        seconds = int(world.seconds) + 1
        self.run.by_second, self.run.refused_by_second = [0] * seconds, [0] * seconds

    def play(self) -> Run:
        """Run to the end of the world."""
        for number in range(self.world.processes):
            self._look_later(number, self._chance.uniform(0, 0.05))
        handle = (self._look, self._at_store, self._arrive, self._answer, self._exchanged)
        events, end = self._events, self.world.seconds
        while events:
            now, _, what, number, value = heapq.heappop(events)
            if now > end:
                break
            handle[what](now, number, value)
        self._note_gap(end)
        return self.run

    # A process

    def _look(self, now: float, number: int, _: Any) -> None:
        process = self._processes[number]
        if now < process.look_at - EXACT:
            return  # a later look replaced this one
        process.look_at = math.inf
        if self.world.stall and now > self._stalls[number]:
            self._stalls[number] = now + self._chance.expovariate(1 / 5)
            self._look_later(number, now + self.world.stall)
            return
        view, slots = process.view, process.slots
        lateness = max(view.catch_up or 0.25, 3 * view.interval)
        while slots and slots[0] < now - lateness:
            slots.popleft()
        spacing = 0.0 if view.catch_up else 0.9 * view.interval - EARLY
        while (
            slots
            and slots[0] <= now + EARLY
            and process.in_flight < min(self.world.executors, max(view.cap * process.share, 1.0))
            and now >= process.last_use + spacing
        ):
            slots.popleft()
            process.last_use = now
            process.in_flight += 1
            there = self.world.there + self._chance.expovariate(1.0) * self.world.jitter
            self._push(now + there, 2, number, now)
        self._exchange_if_due(now, number)
        waiting = process.in_flight < min(self.world.executors, max(view.cap * process.share, 1.0))
        if waiting and slots:
            due = max(slots[0], process.last_use + spacing)
            self._look_later(number, max(due, now) + self._late())
        elif waiting and not process.exchanging:
            self._look_later(number, max(process.view.next_free - process.view.lead, now + 0.001) + self._late())

    def _late(self) -> float:
        return self._chance.expovariate(1.0) * self.world.lateness

    def _look_later(self, number: int, at: float) -> None:
        process = self._processes[number]
        if at < process.look_at:
            process.look_at = at
            self._push(at, 0, number, None)

    def _exchange_if_due(self, now: float, number: int) -> None:
        process = self._processes[number]
        if process.exchanging:
            return
        view, slots = process.view, process.slots
        wanted = self.world.executors - process.in_flight - len(slots)
        wanted = max(min(wanted, math.ceil(view.lead / view.interval)), 0)
        low = not (slots and slots[0] > now + view.lead / 2)
        if not process.write_now and not (wanted and low and view.next_free - now <= view.lead + EARLY):
            return
        answers, process.answers = process.answers, AnswerCounts()
        process.exchanging, process.write_now = True, False
        trip = self.world.store * (0.5 + self._chance.expovariate(2.0)) if self.pace.shared else 0.0
        at = max(now + trip / 2, self._store_free)
        self._store_free = at + self.world.store / 20
        self._push(at, 1, number, (answers, wanted, trip))

    def _at_store(self, now: float, number: int, value: Any) -> None:
        answers, wanted, trip = value
        process, pace = self._processes[number], self.pace
        known = self._shared if pace.shared else process.state
        state = pace.fold(known, answers, now) if answers else known
        instants: list[float] = []
        view = pace.view(state)
        if wanted and view.next_free <= now + view.lead + 2 * EARLY:
            state, instants = pace.reserve(state, now, wanted, now)
        if pace.shared:
            self._shared = state
        else:
            process.state = state
        self._push(now + trip / 2, 4, number, (instants, pace.view(state)))

    def _exchanged(self, now: float, number: int, value: Any) -> None:
        instants, view = value
        process = self._processes[number]
        process.exchanging = False
        if view.voided_at > process.view.voided_at:
            process.slots.clear()
        process.view = view
        process.slots.extend(instants)
        process.own_slots += len(instants)
        if now - process.share_at >= _SHARE_SECONDS:
            everyone = view.slots - process.all_slots
            if everyone > 0 and process.own_slots:
                process.share = min(process.own_slots / everyone, 1.0)
            process.own_slots, process.all_slots, process.share_at = 0, view.slots, now
        self._look_later(number, now + EXACT)

    # The network and the host

    def _arrive(self, now: float, number: int, value: Any) -> None:
        world, run = self.world, self.run
        self._note_gap(now)
        accepted, seconds, wait = self._host.ask(now, number)
        second = int(now)
        if accepted and now + seconds <= world.seconds:
            run.accepted += 1
            run.latency += seconds
            run.by_second[second] += 1
        elif not accepted:
            run.refused += 1
            run.refused_by_second[second] += 1
        retry_after = None
        if not accepted and world.retry_after != "none" and wait > 0:
            retry_after = float(math.ceil(wait))
            if world.retry_after == "wrong":
                retry_after = float(math.ceil(wait * self._chance.choice((0.3, 3.0))))
        back = world.there + self._chance.expovariate(1.0) * world.jitter
        self._push(now + seconds + back + self._late(), 3, number, (value, accepted, retry_after))

    def _note_gap(self, now: float) -> None:
        run = self.run
        run.longest_gap = max(run.longest_gap, now - max(run.last_arrival, run.obeyed_until))
        run.last_arrival = now

    def _answer(self, now: float, number: int, value: Any) -> None:
        sent, accepted, retry_after = value
        process = self._processes[number]
        process.in_flight -= 1
        answers = process.answers
        if accepted:
            answers.pass_one(sent, now - sent)
        else:
            answers.refuse_one(self.world.status, sent, 0.0 if retry_after is None else now + retry_after)
        if retry_after is not None:
            self.run.obeyed_until = max(self.run.obeyed_until, now + retry_after)
            process.slots.clear()
        if not accepted or process.view.prompt:
            process.write_now = True
        self._look_later(number, now + EXACT)

    def _push(self, at: float, what: int, number: int, value: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, number, value))


def play(world: World, pace: Pace) -> Run:
    """Run a policy in a world."""
    return Simulation(world, pace).play()


def best_possible(world: World) -> float:
    """Return how many requests an oracle gets accepted: it knows the limiter, and not the jitter."""
    chance = random.Random(world.seed * 7919 + 2)
    limiter = world.limiter(chance)
    round_trip = world.service + 2 * (world.there + world.jitter)
    bounds = [world.processes * world.executors / round_trip * world.seconds]
    if world.at_once:
        bounds.append(world.at_once / round_trip * world.seconds)
    if world.servers:
        bounds.append(world.servers / world.service * world.seconds + world.queue)
    most = min(bounds)
    clients = getattr(limiter, "addresses", 1)
    total = 0.0
    for client in range(min(clients, world.processes)):
        now, count = 0.0, 0
        while (now := limiter.free_at(now, client)) < world.seconds and count < most:
            limiter.accept(now, client)
            count += 1
        total += count
    return min(total, most) * (1 - world.noise)
