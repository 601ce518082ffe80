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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

from longshore.clock import Clock, SystemClock
from longshore.fleet.lifeline import STOP
from longshore.settings import Span

MAX_RESTARTS = 5
FIRST_WAIT = 0.5
"""Seconds before the first restart; each further one in a row waits twice as long."""
LIVED_WELL = 30.0
"""Seconds after which a crash is not a sign of a broken start."""
GRACE = 10.0
"""Seconds between asking a worker to give back and leave, and killing it."""

_DONE, _STARTED_WRONGLY = 0, 2
_LAST_WORDS = 2.0
_LONGEST_LINE = 65536

AT_ONCE = Span(0.0, 0.0)


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
    """It crashed too often."""


class Stop(IntEnum):
    """How much a worker has been asked to stop. A number of requests on its lifeline."""

    NOT = 0
    DRAIN = 1
    RELEASE = 2


@dataclass
class Post:
    """One worker's place in the fleet, whichever process fills it. Only the fleet changes it."""

    ending: Ending
    phase: Phase = Phase.WAITING
    process: asyncio.subprocess.Process | None = None
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
        if self.process is not None and self.process.stdin is not None:
            for _ in range(self.wanted - self.asked):
                # A worker that is gone already needs no asking.
                with suppress(OSError, RuntimeError):
                    self.process.stdin.write(STOP)
            self.asked = self.wanted


@dataclass
class Fleet:
    """The workers of one machine. `run` returns when all have ended for good; `stop` makes that soon."""

    commands: Sequence[WorkerCommand]
    say: Callable[[str], None]
    """Told, in a sentence, what a person should know."""
    clock: Clock = field(default_factory=SystemClock)
    stagger: Span = AT_ONCE
    """Seconds between the starts of two workers, drawn anew each time."""
    heard: Callable[[str, bytes], None] | None = None
    """Told each line a worker writes to its standard output, with its name; without it, those go to the log."""
    posts: dict[str, Post] = field(default_factory=dict, init=False)
    """Every worker by its name, in the order they are started."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set once the whole fleet has been asked to stop."""
    _group: asyncio.TaskGroup | None = field(default=None, init=False)
    _wanted: Stop = field(default=Stop.NOT, init=False)

    def __post_init__(self) -> None:
        self.posts = {command.name: Post(Ending(command)) for command in self.commands}

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [pid for post in self.posts.values() if (pid := post.pid) is not None]

    async def run(self, *beside: Coroutine[Any, Any, None]) -> list[Ending]:
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
        self.posts[command.name] = post = Post(Ending(command))
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
                await self._pause(wait, self.stopping)
            group.create_task(self._keep(post))

    async def _keep(self, post: Post) -> None:
        ending, name = post.ending, post.ending.command.name
        in_a_row = 0
        while not post.stopping.is_set():
            started = self.clock.monotonic()
            ending.exit_code = await self._start_once(post)
            if post.stopping.is_set() or ending.exit_code in (_DONE, _STARTED_WRONGLY):
                break
            if self.clock.monotonic() - started >= LIVED_WELL:
                in_a_row = 0
            how = how_it_ended(ending.exit_code)
            if in_a_row == MAX_RESTARTS:
                post.phase = Phase.GIVEN_UP
                log = ending.command.log
                self.say(f"{name} {how} {in_a_row + 1} times in a row and is given up; its log: {log}")
                return
            wait = FIRST_WAIT * 2**in_a_row
            in_a_row += 1
            ending.restarts += 1
            post.phase = Phase.RESTARTING
            self.say(f"{name} {how}; starting it again in {wait:g} s. What it held comes back by itself.")
            await self._pause(wait, post.stopping)
        post.phase = Phase.ENDED

    async def _pause(self, seconds: float, unless: asyncio.Event) -> None:
        waits = {asyncio.ensure_future(self.clock.sleep(seconds)), asyncio.ensure_future(unless.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _start_once(self, post: Post) -> int:
        command = post.ending.command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=log if self.heard is None else asyncio.subprocess.PIPE,
                stderr=log,
                env=dict(command.environment),
                # Ctrl-C reaches the supervisor alone, which then asks the workers in its own order.
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        post.process, post.asked, post.phase = process, Stop.NOT, Phase.RUNNING
        if post.stopping.is_set():
            # What was asked while it was being started.
            post.stop(post.wanted)
        listening = asyncio.ensure_future(self._listen(command.name, process))
        try:
            exit_code = await _ended(post, process)
            # What it said last is still on its way.
            await asyncio.wait({listening}, timeout=_LAST_WORDS)
        finally:
            listening.cancel()
        post.process = None
        _hang_up(process)
        return exit_code

    async def _listen(self, name: str, process: asyncio.subprocess.Process) -> None:
        if self.heard is None or process.stdout is None:
            return
        begun = b""
        while chunk := await process.stdout.read(_LONGEST_LINE):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                self.heard(name, line)
            # Of a line beyond all measure the rest is let go by: whoever writes it must not be held up.
            begun = begun[-_LONGEST_LINE:]

    async def _leave_none_behind(self) -> None:
        """Only has work to do when `run` itself was cancelled or failed."""
        left = [post.process for post in self.posts.values() if post.process is not None]
        if not left:
            return
        self.stop(Stop.RELEASE)
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
        for post in self.posts.values():
            post.process = None


async def _ended(post: Post, process: asyncio.subprocess.Process) -> int:
    """The exit code, once it has one. A worker that does not leave when it must is killed."""
    ended = asyncio.ensure_future(process.wait())
    released = asyncio.ensure_future(post.releasing.wait())
    try:
        await asyncio.wait({ended, released}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({ended}, timeout=GRACE)
        if not ended.done():
            process.kill()
        return await ended
    finally:
        released.cancel()
        ended.cancel()


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
