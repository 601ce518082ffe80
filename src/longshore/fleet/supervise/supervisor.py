"""A supervisor: starts worker processes, starts a crashed one again, and leaves none behind.

A worker that says goodbye and ends with 0 has done its part. One that ends with 2 at its first start, before it said
anything, was started wrongly and would end the same way again, and one that the system will not start is given up; the
others go on. Any other end is a crash. A crashed worker is started again after a growing wait, five times in a row at
most; a worker that had lived for half a minute has shown that it can work, and its count begins anew.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from longshore.clock import Clock, SystemClock
from longshore.fleet.supervise.worker_process import WorkerProcess
from longshore.settings import SecondsRange
from longshore.system.first_of import first_of

MAX_RESTARTS = 5
FIRST_WAIT = 0.5
"""Seconds before the first restart; each further one in a row waits twice as long."""
LIVED_WELL = 30.0
"""Seconds after which a crash is not a sign of a broken start."""
GRACE = 10.0
"""Seconds between asking a worker to give back and leave, and killing it."""

_DONE, _STARTED_WRONGLY = 0, 2

AT_ONCE = SecondsRange(0.0, 0.0)


@dataclass(frozen=True)
class WorkerCommand:
    """How to start one worker."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]


@dataclass
class WorkerExit:
    """How one worker ended for good."""

    command: WorkerCommand
    exit_code: int | None = None
    """None where it never started."""
    restarts: int = 0
    done: bool = False
    """Whether it ended because its work was."""


class Phase(StrEnum):
    """Where a worker stands."""

    WAITING = "waiting"
    """For its turn to be started."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """It crashed, and will be started again in a moment."""
    DRAINING = "draining"
    ENDED = "ended"
    GIVEN_UP = "given up"
    """It crashed too often, or could not be started at all."""


class Stop(IntEnum):
    """How much a worker has been asked to stop. A number of requests on its lifeline."""

    NOT = 0
    DRAIN = 1
    RELEASE = 2


@dataclass
class SupervisedWorker:
    """One worker's place in the fleet, whichever process fills it. Only the fleet changes it."""

    ending: WorkerExit
    phase: Phase = Phase.WAITING
    process: WorkerProcess | None = None
    wanted: Stop = Stop.NOT
    asked: Stop = Stop.NOT
    """How much of what is wanted its present process has been told."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    releasing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        """The process that fills it now."""
        return None if self.process is None else self.process.pid

    @property
    def over(self) -> bool:
        """Whether nobody will fill it any more."""
        return self.phase in (Phase.ENDED, Phase.GIVEN_UP)

    def stop(self, wanted: Stop) -> None:
        """Ask whoever fills it to stop, at least so much; nobody is started here after this."""
        self.wanted = max(self.wanted, wanted)
        self.stopping.set()
        if self.wanted is Stop.RELEASE:
            self.releasing.set()
        if self.process is not None:
            self.phase = Phase.DRAINING
            self.pass_on()

    def pass_on(self) -> None:
        """Tell its process what it has not been told yet."""
        if self.process is not None:
            for _ in range(self.wanted - self.asked):
                self.process.ask_to_stop()
            self.asked = self.wanted


@dataclass
class Fleet:
    """The workers of one machine. `run` returns when all have ended for good; `stop` makes that soon."""

    commands: Sequence[WorkerCommand]
    say: Callable[[str], None]
    """Told, in a sentence, what a person should know."""
    clock: Clock = field(default_factory=SystemClock)
    stagger: SecondsRange = AT_ONCE
    """Seconds between the starts of two workers, drawn anew each time."""
    heard: Callable[[str, bytes], None] | None = None
    """Told each line a worker writes to its standard output, with its name, but for its goodbye.

    Without it, those go to the log, and a worker need not say goodbye.
    """
    posts: dict[str, SupervisedWorker] = field(default_factory=dict, init=False)
    """Every worker by its name, in the order they are started."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set once the whole fleet has been asked to stop."""
    _group: asyncio.TaskGroup | None = field(default=None, init=False)
    _wanted: Stop = field(default=Stop.NOT, init=False)

    def __post_init__(self) -> None:
        self.posts = {command.name: SupervisedWorker(WorkerExit(command)) for command in self.commands}

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [pid for post in self.posts.values() if (pid := post.pid) is not None]

    async def run(self, *beside: Coroutine[Any, Any, None]) -> list[WorkerExit]:
        """Start all workers and see each to its end. Whatever happens here, no worker is left behind.

        What is given to run `beside` them keeps it from returning until that ends too, and may add and drain workers.
        """
        try:
            async with asyncio.TaskGroup() as self._group:
                for each in beside:
                    self._group.create_task(each)
                self._group.create_task(self._start_all(self._group))
            return [post.ending for post in self.posts.values()]
        finally:
            self._group = None
            await self._leave_none_behind()

    def add(self, command: WorkerCommand) -> None:
        """Start one more worker, now. Only while `run` runs; a name may be used again once its worker has ended."""
        if self._group is None:
            raise RuntimeError("a worker is added to a fleet that runs")
        if command.name in self.posts and not self.posts[command.name].over:
            raise ValueError(f"{command.name} is there already")
        self.posts[command.name] = post = SupervisedWorker(WorkerExit(command))
        if self.stopping.is_set():
            post.stop(self._wanted)
        self._group.create_task(self._keep(post))

    def drain(self, name: str) -> None:
        """Ask one worker to finish what it holds and stop. It is not started again."""
        self.posts[name].stop(Stop.DRAIN)

    def stop(self, wanted: Stop | None = None) -> None:
        """Ask every worker to finish what it holds and stop; the second time, to give it back and leave now.

        With `wanted`, at least so much of it. None is started again after this.
        """
        further = min(self._wanted + 1, Stop.RELEASE) if wanted is None else max(wanted, self._wanted)
        self._wanted = Stop(further)
        self.stopping.set()
        for post in self.posts.values():
            if not post.over:
                post.stop(self._wanted)

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        for number, post in enumerate(list(self.posts.values())):
            if number and (wait := self.stagger.draw()):
                await first_of(self.clock.sleep(wait), self.stopping.wait())
            group.create_task(self._keep(post))

    async def _keep(self, post: SupervisedWorker) -> None:
        ending, name = post.ending, post.ending.command.name
        in_a_row = 0
        while not post.stopping.is_set():
            started = self.clock.monotonic()
            try:
                process = await self._start(post)
            except OSError as error:
                how = f"cannot be started: {_cause(error)}"
                if not ending.restarts:
                    post.phase = Phase.GIVEN_UP
                    self.say(f"{name} {how}. It is given up; the others go on.")
                    return
            else:
                await self._see_to_its_end(post, process)
                if post.stopping.is_set() or ending.done or self._started_wrongly(ending, process):
                    break
                how = how_it_ended(ending.exit_code)
                if ending.exit_code == _DONE:
                    how += " in the middle of its work"
            if self.clock.monotonic() - started >= LIVED_WELL:
                in_a_row = 0
            if in_a_row == MAX_RESTARTS:
                post.phase = Phase.GIVEN_UP
                log = ending.command.log
                self.say(f"{name} {how}, {in_a_row + 1} times in a row, and is given up; its log: {log}")
                return
            wait = FIRST_WAIT * 2**in_a_row
            in_a_row += 1
            ending.restarts += 1
            post.phase = Phase.RESTARTING
            self.say(f"{name} {how}; starting it again in {wait:g} s. What it held comes back by itself.")
            await first_of(self.clock.sleep(wait), post.stopping.wait())
        post.phase = Phase.ENDED

    async def _start(self, post: SupervisedWorker) -> WorkerProcess:
        command, heard = post.ending.command, self.heard
        listener = None if heard is None else partial(heard, command.name)
        process = await WorkerProcess.start(command.arguments, command.log, command.environment, listener)
        post.process, post.asked, post.phase = process, Stop.NOT, Phase.RUNNING
        if post.stopping.is_set():
            # What was asked while it was being started.
            post.stop(post.wanted)
        return process

    async def _see_to_its_end(self, post: SupervisedWorker, process: WorkerProcess) -> None:
        await _ended(post, process)
        await process.close()
        post.process = None
        post.ending.exit_code = process.exit_code
        # One that was told to stop before it could begin had nothing to say.
        told_early = post.stopping.is_set() and not process.reported
        well = self.heard is None or process.said_goodbye or told_early
        post.ending.done = process.exit_code == _DONE and well

    def _started_wrongly(self, ending: WorkerExit, process: WorkerProcess) -> bool:
        # One that has been started well before fails for a reason that may pass: a file that is just being edited.
        return ending.exit_code == _STARTED_WRONGLY and not ending.restarts and not process.reported

    async def _leave_none_behind(self) -> None:
        """Only has work to do when `run` itself was cancelled or failed."""
        left = [post.process for post in self.posts.values() if post.process is not None]
        if not left:
            return
        self.stop(Stop.RELEASE)
        try:
            async with asyncio.timeout(GRACE):
                await asyncio.gather(*(process.ended() for process in left))
        except TimeoutError:
            for process in left:
                process.kill()
        for process in left:
            await process.ended()
            await process.close()
        for post in self.posts.values():
            post.process = None


async def _ended(post: SupervisedWorker, process: WorkerProcess) -> None:
    """Return when it has ended. A worker that does not leave when it must is killed."""
    await first_of(process.ended(), post.releasing.wait())
    try:
        async with asyncio.timeout(GRACE):
            await process.ended()
    except TimeoutError:
        process.kill()
        await process.ended()


def _cause(error: OSError) -> str:
    what = error.strerror or str(error)
    return what if error.filename is None else f"{what} ({error.filename})"


def how_it_ended(exit_code: int | None) -> str:
    """The end of a process in words."""
    if exit_code is None:
        return "never started"
    if exit_code < 0:
        try:
            return f"was killed ({signal.Signals(-exit_code).name})"
        except ValueError:
            return f"was killed (signal {-exit_code})"
    return f"ended with exit code {exit_code}"
