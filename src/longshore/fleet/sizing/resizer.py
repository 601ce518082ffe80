"""Keeps a running fleet at the size that its work asks for; `longshore.fleet.sizing.autoscale` decides that size.

It runs beside the workers (`Fleet.run(sizing.keep())`) and ends when the fleet is asked to stop, or when no worker is
left and none is to come: all were given up, or the work is done and that is the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from longshore.errors import QueueUnavailableError
from longshore.fleet.sizing.autoscale import Decision, FleetMembers, Limit, Machine, QueueLoad, Scaler
from longshore.fleet.sizing.machine_headroom import MachineHeadroom
from longshore.fleet.supervise.supervisor import Fleet, Phase, Stop, SupervisedWorker, WorkerCommand
from longshore.system.first_of import first_of

LOOK_EVERY = 3.0
"""Seconds between two looks."""


class Resizable(Protocol):
    """A running fleet whose workers come and go one by one, by their numbers."""

    @property
    def crew(self) -> FleetMembers:
        """Its workers now."""

    @property
    def pids(self) -> Collection[int]:
        """The processes of its workers, those that drain among them."""

    @property
    def stopping(self) -> asyncio.Event:
        """Set once the whole fleet is to end."""

    def start(self, number: int) -> None:
        """Have a worker of this number, and keep it running."""

    def drain(self, number: int) -> None:
        """Let this worker finish what it holds and leave; it is not started again."""


class Numbered:
    """A `Fleet` as `Resizable`: `command` says how the worker of a number is started.

    The workers that the fleet begins with have the numbers from 0 on.
    """

    def __init__(self, fleet: Fleet, command: Callable[[int], WorkerCommand]) -> None:
        self._fleet = fleet
        self._command = command
        self._names = {number: command(number).name for number in range(len(fleet.posts))}

    @property
    def crew(self) -> FleetMembers:
        posts = {number: self._fleet.posts[name] for number, name in self._names.items()}
        return FleetMembers(
            live=frozenset(number for number, post in posts.items() if not post.over and post.wanted is Stop.NOT),
            draining=frozenset(number for number, post in posts.items() if not post.over and post.wanted),
            given_up=frozenset(number for number, post in posts.items() if _given_up(post)),
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


def _given_up(post: SupervisedWorker) -> bool:
    # One that was started wrongly would end the same way under any number.
    started_wrongly = post.phase is Phase.ENDED and post.wanted is Stop.NOT and not post.ending.done
    return started_wrongly or post.phase is Phase.GIVEN_UP


@dataclass
class Resizer:
    """Looks at a fleet every few seconds and has the scaler's decisions carried out."""

    fleet: Resizable
    scaler: Scaler
    load: Callable[[], Awaitable[QueueLoad]]
    """Counts the work there is for this fleet."""
    say: Callable[[str], None]
    """Told, in a sentence, what a person should know."""
    until_done: bool = False
    """Whether the fleet ends with its work, rather than wait for more."""
    machine: Callable[[Collection[int]], Awaitable[Machine]] = field(default_factory=lambda: MachineHeadroom().read)
    _limit: Limit | None = None
    _silent: bool = False

    async def keep(self) -> None:
        """Look and act, until the fleet is to end."""
        while not self.fleet.stopping.is_set() and await self.look():
            await first_of(self.scaler.clock.sleep(LOOK_EVERY), self.fleet.stopping.wait())

    async def look(self) -> bool:
        """Look once, and act; whether there is any sense in looking again.

        Where the queue does not answer, everything stays as it is.
        """
        try:
            load = await self.load()
        except QueueUnavailableError as error:
            if not self._silent:
                self._silent = True
                self.say(f"The number of workers stays as it is until the queue answers: {error}")
            return True
        if self._silent:
            self._silent = False
            self.say("The queue answers again.")
        machine = await self.machine(self.fleet.pids)
        crew = self.fleet.crew
        decision = self.scaler.look(load, crew, machine)
        for number in decision.start:
            self.fleet.start(number)
        for number in decision.drain:
            self.fleet.drain(number)
        self._tell(decision, len(crew.live))
        over = bool(crew.given_up) or (self.until_done and not load.pending + load.claimed)
        return not (over and not crew.processes and not decision.start)

    def _tell(self, decision: Decision, before: int) -> None:
        after = before + len(decision.start) - len(decision.drain)
        if after != before:
            self.say(f"From {before} to {_workers(after)}: {decision.why}.")
        elif decision.limit not in (None, self._limit):
            # Once for each reason, not with every look.
            self.say(f"Staying at {_workers(after)} instead of {decision.target}: {decision.why}.")
        self._limit = decision.limit


def _workers(number: int) -> str:
    return f"{number} worker" if number == 1 else f"{number} workers"
