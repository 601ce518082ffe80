"""The supervisor: starts worker processes, restarts crashed ones, and leaves none behind.

A worker that reports its goodbye and exits with 0 is done. A worker that exits with 2 on its first start, before it
wrote anything, has a wrong command line and would end the same way again; a worker that the system cannot start is
given up. The other workers continue. Any other end is a crash. A crashed worker is restarted after a growing delay, at
most five times in a row; a worker that ran for half a minute has shown that it works, and its count starts at zero.
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
STABLE_SECONDS = 30.0
"""A crash after this many seconds is no sign of a broken start."""
GRACE = 10.0
"""Seconds between the request to release all jobs and exit, and the kill."""

_EXIT_DONE, _EXIT_USAGE, _EXIT_REPLACED = 0, 2, 4
"""As `worker.status.counters.Exit` has them; the supervisor imports nothing of a worker."""

AT_ONCE = SecondsRange(0.0, 0.0)


@dataclass(frozen=True)
class WorkerCommand:
    """The command that starts one worker."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]


@dataclass
class WorkerExit:
    """The final end of one worker."""

    command: WorkerCommand
    exit_code: int | None = None
    """None if it never started."""
    restarts: int = 0
    done: bool = False
    """Whether it ended because its work was done."""


class Phase(StrEnum):
    """The phase of a worker."""

    WAITING = "waiting"
    """It has not been started yet."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """It crashed, and will be restarted after a delay."""
    DRAINING = "draining"
    ENDED = "ended"
    GIVEN_UP = "given up"
    """It crashed too often, or could not be started at all."""


class Stop(IntEnum):
    """How far a worker has been asked to stop: the number of requests on its lifeline."""

    NOT = 0
    DRAIN = 1
    RELEASE = 2


@dataclass
class SupervisedWorker:
    """One worker of the fleet across all restarts of its process. Only the fleet changes it."""

    ending: WorkerExit
    phase: Phase = Phase.WAITING
    process: WorkerProcess | None = None
    wanted: Stop = Stop.NOT
    asked: Stop = Stop.NOT
    """The requests that its present process has got."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    releasing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        """The id of its present process; None if there is none."""
        return None if self.process is None else self.process.pid

    @property
    def over(self) -> bool:
        """Whether it will not be started again."""
        return self.phase in (Phase.ENDED, Phase.GIVEN_UP)

    def stop(self, wanted: Stop) -> None:
        """Ask its process to stop, at least as far as `wanted`. It is not started again after this."""
        self.wanted = max(self.wanted, wanted)
        self.stopping.set()
        if self.wanted is Stop.RELEASE:
            self.releasing.set()
        if self.process is not None:
            self.phase = Phase.DRAINING
            self.pass_on()

    def pass_on(self) -> None:
        """Send its process the requests that it has not got yet."""
        if self.process is not None:
            for _ in range(self.wanted - self.asked):
                self.process.ask_to_stop()
            self.asked = self.wanted


@dataclass
class Fleet:
    """The workers of one machine. `run` returns when all have ended for good; `stop` asks them to end."""

    commands: Sequence[WorkerCommand]
    say: Callable[[str], None]
    """Called with a sentence for the user."""
    clock: Clock = field(default_factory=SystemClock)
    stagger: SecondsRange = AT_ONCE
    """Seconds between the starts of two workers, drawn at random each time."""
    heard: Callable[[str, bytes], None] | None = None
    """Called with the worker's name and each line of its standard output, except the goodbye.

    If it is None, the lines go to the log, and a worker need not report its goodbye.
    """
    renewed: Callable[[WorkerCommand], Coroutine[Any, Any, WorkerCommand | None]] | None = None
    """Called when a worker has drained because its published code was replaced: returns its next command, or None."""
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
        """The ids of the processes that run now."""
        return [pid for worker in self.posts.values() if (pid := worker.pid) is not None]

    async def run(self, *beside: Coroutine[Any, Any, None]) -> list[WorkerExit]:
        """Start all workers, and return how each ended. No worker process is left behind, also if this fails.

        The coroutines `beside` run at the same time and may add and drain workers; this returns when they end too.
        """
        try:
            async with asyncio.TaskGroup() as self._group:
                for each in beside:
                    self._group.create_task(each)
                self._group.create_task(self._start_all(self._group))
            return [worker.ending for worker in self.posts.values()]
        finally:
            self._group = None
            await self._end_leftovers()

    def add(self, command: WorkerCommand) -> None:
        """Start one more worker now, while `run` runs. A name may be reused when its worker has ended."""
        if self._group is None:
            raise RuntimeError("a worker can only be added while the fleet runs")
        if command.name in self.posts and not self.posts[command.name].over:
            raise ValueError(f"{command.name} already exists")
        self.posts[command.name] = worker = SupervisedWorker(WorkerExit(command))
        if self.stopping.is_set():
            worker.stop(self._wanted)
        self._group.create_task(self._keep(worker))

    def drain(self, name: str) -> None:
        """Ask one worker to finish the jobs it holds and stop. It is not started again."""
        self.posts[name].stop(Stop.DRAIN)

    def stop(self, wanted: Stop | None = None) -> None:
        """Ask every worker to finish the jobs it holds and stop; on the second call, to release them and exit now.

        `wanted` asks for at least that. No worker is started again after this.
        """
        further = min(self._wanted + 1, Stop.RELEASE) if wanted is None else max(wanted, self._wanted)
        self._wanted = Stop(further)
        self.stopping.set()
        for worker in self.posts.values():
            if not worker.over:
                worker.stop(self._wanted)

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        for number, worker in enumerate(list(self.posts.values())):
            if number and (wait := self.stagger.draw()):
                await first_of(self.clock.sleep(wait), self.stopping.wait())
            group.create_task(self._keep(worker))

    async def _keep(self, worker: SupervisedWorker) -> None:
        ending, name = worker.ending, worker.ending.command.name
        in_a_row = 0
        while not worker.stopping.is_set():
            started = self.clock.monotonic()
            try:
                process = await self._start(worker)
            except OSError as error:
                how = f"cannot be started: {_cause(error)}"
                if not ending.restarts:
                    worker.phase = Phase.GIVEN_UP
                    self.say(f"{name} {how}. It is given up; the others go on.")
                    return
            else:
                await self._wait_for_end(worker, process)
                if worker.stopping.is_set() or ending.done or self._started_wrongly(ending, process):
                    break
                if ending.exit_code == _EXIT_REPLACED and self.renewed is not None:
                    worker.phase = Phase.RESTARTING
                    command = await self.renewed(ending.command)
                    if command is None:
                        break
                    ending.command, in_a_row = command, 0
                    continue
                how = how_it_ended(ending.exit_code)
                if ending.exit_code == _EXIT_DONE:
                    how += " in the middle of its work"
            if self.clock.monotonic() - started >= STABLE_SECONDS:
                in_a_row = 0
            if in_a_row == MAX_RESTARTS:
                worker.phase = Phase.GIVEN_UP
                log = ending.command.log
                self.say(f"{name} {how}, {in_a_row + 1} times in a row, and is given up; its log: {log}")
                return
            wait = FIRST_WAIT * 2**in_a_row
            in_a_row += 1
            ending.restarts += 1
            worker.phase = Phase.RESTARTING
            self.say(f"{name} {how}; starting it again in {wait:g} s. Its jobs will be claimed again.")
            await first_of(self.clock.sleep(wait), worker.stopping.wait())
        worker.phase = Phase.ENDED

    async def _start(self, worker: SupervisedWorker) -> WorkerProcess:
        command, heard = worker.ending.command, self.heard
        listener = None if heard is None else partial(heard, command.name)
        process = await WorkerProcess.start(command.arguments, command.log, command.environment, listener)
        worker.process, worker.asked, worker.phase = process, Stop.NOT, Phase.RUNNING
        if worker.stopping.is_set():
            # Stop requests that arrived during the start.
            worker.stop(worker.wanted)
        return process

    async def _wait_for_end(self, worker: SupervisedWorker, process: WorkerProcess) -> None:
        await _ended(worker, process)
        await process.close()
        worker.process = None
        worker.ending.exit_code = process.exit_code
        # A worker that was asked to stop before it could begin has nothing to report.
        stopped_early = worker.stopping.is_set() and not process.reported
        as_intended = self.heard is None or process.announced_exit or stopped_early
        worker.ending.done = process.exit_code == _EXIT_DONE and as_intended

    def _started_wrongly(self, ending: WorkerExit, process: WorkerProcess) -> bool:
        # After a good start the cause may be temporary, such as a file that is being edited.
        return ending.exit_code == _EXIT_USAGE and not ending.restarts and not process.reported

    async def _end_leftovers(self) -> None:
        """End the processes that are left if `run` was cancelled or failed."""
        left = [worker.process for worker in self.posts.values() if worker.process is not None]
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
        for worker in self.posts.values():
            worker.process = None


async def _ended(worker: SupervisedWorker, process: WorkerProcess) -> None:
    """Return when the process has ended. Kill it if it does not exit within `GRACE` seconds of a release request."""
    await first_of(process.ended(), worker.releasing.wait())
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
    """Return the end of a process in words."""
    if exit_code is None:
        return "never started"
    if exit_code < 0:
        try:
            return f"was killed ({signal.Signals(-exit_code).name})"
        except ValueError:
            return f"was killed (signal {-exit_code})"
    return f"ended with exit code {exit_code}"
