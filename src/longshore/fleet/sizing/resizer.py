"""Keeps a running fleet at the size that its work needs; `longshore.fleet.sizing.autoscale` decides that size.

It runs beside the workers (`Fleet.run(resizer.keep())`) and ends when the fleet is asked to stop, or when no worker is
left and none will be started: all were given up, or the work is done and the fleet ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from longshore.errors import PassingQueueError
from longshore.fleet.sizing.autoscale import Decision, FleetMembers, Limit, Machine, QueueLoad, Scaler
from longshore.fleet.sizing.machine_headroom import MachineHeadroom
from longshore.fleet.supervise.supervisor import Fleet, Phase, Stop, SupervisedWorker, WorkerCommand
from longshore.system.first_of import first_of

LOOK_EVERY = 3.0
"""Seconds between two rounds."""


class Resizable(Protocol):
    """A running fleet whose workers can be started and drained one by one, by number."""

    @property
    def members(self) -> FleetMembers:
        """The present workers of the fleet."""

    @property
    def pids(self) -> Collection[int]:
        """The process ids of its workers, including draining ones."""

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the whole fleet is asked to stop."""

    def start(self, number: int) -> None:
        """Start a worker of this number, and keep it running."""

    def drain(self, number: int) -> None:
        """Let this worker finish the jobs it holds and stop; it is not started again."""


class Numbered:
    """A `Fleet` as `Resizable`: `command` returns the command that starts the worker of a number.

    The first workers of the fleet have the numbers from 0 on.
    """

    def __init__(self, fleet: Fleet, command: Callable[[int], WorkerCommand]) -> None:
        self._fleet = fleet
        self._command = command
        self._names = {number: command(number).name for number in range(len(fleet.posts))}

    @property
    def members(self) -> FleetMembers:
        posts = {number: self._fleet.posts[name] for number, name in self._names.items()}
        return FleetMembers(
            live=frozenset(number for number, worker in posts.items() if not worker.over and worker.wanted is Stop.NOT),
            draining=frozenset(number for number, worker in posts.items() if not worker.over and worker.wanted),
            given_up=frozenset(number for number, worker in posts.items() if _given_up(worker)),
        )

    @property
    def pids(self) -> Collection[int]:
        return self._fleet.pids

    @property
    def stopping(self) -> asyncio.Event:
        return self._fleet.stopping

    def start(self, number: int) -> None:
        command = self._command(number)
        self._names[number] = command.name
        self._fleet.add(command)

    def drain(self, number: int) -> None:
        self._fleet.drain(self._names[number])


def _given_up(worker: SupervisedWorker) -> bool:
    # A worker with a wrong command line would end the same way under any number.
    started_wrongly = worker.phase is Phase.ENDED and worker.wanted is Stop.NOT and not worker.ending.done
    return started_wrongly or worker.phase is Phase.GIVEN_UP


@dataclass
class Resizer:
    """Measures a fleet every few seconds and carries out the decisions of the scaler."""

    fleet: Resizable
    scaler: Scaler
    load: Callable[[], Awaitable[QueueLoad]]
    """Returns the load of this fleet."""
    say: Callable[[str], None]
    """Called with a sentence for the user."""
    until_done: bool = False
    """Whether the fleet ends when its work is done, instead of waiting for more."""
    machine: Callable[[Collection[int]], Awaitable[Machine]] = field(default_factory=lambda: MachineHeadroom().read)
    _limit: Limit | None = None
    _unavailable: bool = False

    async def keep(self) -> None:
        """Measure and act again and again, until the fleet ends."""
        while not self.fleet.stopping.is_set() and await self.look():
            await first_of(self.scaler.clock.sleep(LOOK_EVERY), self.fleet.stopping.wait())

    async def look(self) -> bool:
        """Measure and act once. Return whether another round makes sense.

        If the queue does not answer, everything stays as it is.
        """
        try:
            load = await self.load()
        except PassingQueueError as error:
            if not self._unavailable:
                self._unavailable = True
                self.say(f"The number of workers stays as it is until the queue answers: {error}")
            return True
        if self._unavailable:
            self._unavailable = False
            self.say("The queue answers again.")
        machine = await self.machine(self.fleet.pids)
        members = self.fleet.members
        decision = self.scaler.look(load, members, machine)
        for number in decision.start:
            self.fleet.start(number)
        for number in decision.drain:
            self.fleet.drain(number)
        self._tell(decision, len(members.live))
        done = not (load.pending + load.claimed or load.being_submitted)
        over = bool(members.given_up) or (self.until_done and done)
        return not (over and not members.processes and not decision.start)

    def _tell(self, decision: Decision, before: int) -> None:
        after = before + len(decision.start) - len(decision.drain)
        if after != before:
            self.say(f"From {before} to {_workers(after)}: {decision.why}.")
        elif decision.limit not in (None, self._limit):
            # Once for each reason, not in every round.
            self.say(f"Staying at {_workers(after)} instead of {decision.target}: {decision.why}.")
        self._limit = decision.limit


def _workers(number: int) -> str:
    return f"{number} worker" if number == 1 else f"{number} workers"
