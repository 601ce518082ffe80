"""A supervisor: starts worker processes, starts a crashed one again, and leaves none behind.

A worker that ends with 0 has done its part, one that ends with 2 was started wrongly and would end the same way again;
any other end is a crash. A crashed worker is started again after a growing wait, five times in a row at
most; a worker that had lived for half a minute has shown that it can work, and its count begins anew.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from longshore.clock import Clock, SystemClock
from longshore.fleet.lifeline import STOP

MAX_RESTARTS = 5
FIRST_WAIT = 0.5
"""Seconds before the first restart; each further one in a row waits twice as long."""
LIVED_WELL = 30.0
"""Seconds after which a crash is not a sign of a broken start."""
GRACE = 10.0
"""Seconds between asking a worker to give back and leave, and killing it."""

_DONE, _STARTED_WRONGLY = 0, 2


@dataclass(frozen=True)
class WorkerCommand:
    """How to start one worker."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]


@dataclass
class Ending:
    """How one worker ended for good."""

    command: WorkerCommand
    exit_code: int | None = None
    """None where it never started."""
    restarts: int = 0

    @property
    def done(self) -> bool:
        """Whether it ended because its work was."""
        return self.exit_code == _DONE


@dataclass
class Fleet:
    """The workers of one machine. `run` returns when all have ended for good; `stop` makes that soon."""

    commands: Sequence[WorkerCommand]
    say: Callable[[str], None]
    """Told, in a sentence, what a person should know."""
    clock: Clock = field(default_factory=SystemClock)
    _live: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _releasing: asyncio.Event = field(default_factory=asyncio.Event)
    _stops: int = 0

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [process.pid for process in self._live.values()]

    async def run(self) -> list[Ending]:
        """Start all workers and see each to its end. Whatever happens here, no worker is left behind."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._keep(command)) for command in self.commands]
            return [task.result() for task in tasks]
        finally:
            await self._leave_none_behind()

    def stop(self) -> None:
        """Ask every worker to finish what it holds and stop; the second time, to give it back and leave now.

        None is started again after this.
        """
        self._stops += 1
        self._stopping.set()
        if self._stops > 1:
            self._releasing.set()
        for process in self._live.values():
            _ask(process)

    async def _keep(self, command: WorkerCommand) -> Ending:
        ending = Ending(command)
        in_a_row = 0
        while not self._stopping.is_set():
            started = self.clock.monotonic()
            ending.exit_code = await self._start_once(command)
            if self._stopping.is_set() or ending.exit_code in (_DONE, _STARTED_WRONGLY):
                break
            if self.clock.monotonic() - started >= LIVED_WELL:
                in_a_row = 0
            how = how_it_ended(ending.exit_code)
            if in_a_row == MAX_RESTARTS:
                self.say(f"{command.name} {how} {in_a_row + 1} times in a row and is given up; its log: {command.log}")
                break
            wait = FIRST_WAIT * 2**in_a_row
            in_a_row += 1
            ending.restarts += 1
            self.say(f"{command.name} {how}; starting it again in {wait:g} s. What it held comes back by itself.")
            await self._pause(wait)
        return ending

    async def _pause(self, seconds: float) -> None:
        waits = {asyncio.ensure_future(self.clock.sleep(seconds)), asyncio.ensure_future(self._stopping.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _start_once(self, command: WorkerCommand) -> int:
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(command.environment),
                # Ctrl-C reaches the supervisor alone, which then asks the workers in its own order.
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self._live[command.name] = process
        # What was asked while it was being started.
        for _ in range(self._stops):
            _ask(process)
        exit_code = await self._ended(process)
        del self._live[command.name]
        _hang_up(process)
        return exit_code

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """The exit code, once it has one. A worker that does not leave when it must is killed."""
        ended = asyncio.ensure_future(process.wait())
        released = asyncio.ensure_future(self._releasing.wait())
        try:
            await asyncio.wait({ended, released}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({ended}, timeout=GRACE)
            if not ended.done():
                process.kill()
            return await ended
        finally:
            released.cancel()
            ended.cancel()

    async def _leave_none_behind(self) -> None:
        """Only has work to do when `run` itself was cancelled or failed."""
        left = list(self._live.values())
        if not left:
            return
        for _ in range(2 - self._stops):
            self.stop()
        try:
            async with asyncio.timeout(GRACE):
                await asyncio.gather(*(process.wait() for process in left))
        except TimeoutError:
            for process in left:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for process in left:
            _hang_up(process)
        self._live.clear()


def _ask(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        # A worker that is gone already needs no asking.
        with suppress(OSError, RuntimeError):
            process.stdin.write(STOP)


def _hang_up(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()


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
