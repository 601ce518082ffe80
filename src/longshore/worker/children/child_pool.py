"""Child processes for plain handlers: started when first needed, used again, and really ended at a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec
import structlog

from longshore.errors import CrashedError
from longshore.job import Job
from longshore.observe.logs import enter_job, relay
from longshore.outcome import Outcome
from longshore.system.processes import new_group_flags
from longshore.worker.children.child_rpc import ChildServer, SharedTools
from longshore.worker.children.guardian import MARK, end_tree
from longshore.worker.children.wire import (
    HEAD,
    BrokenHandlerFile,
    ChildNotice,
    ChildRequest,
    Done,
    LogLine,
    Ready,
    RunJob,
    Setup,
    ToChild,
    length_in,
    outcome_in,
    pack,
    read_from_child,
)
from longshore.worker.kit.config import KitConfig

_START_SECONDS = 60.0
_LAST_WORDS_SECONDS = 1.0
_LONGEST_LINE = 1 << 20

log = structlog.get_logger()


class ChildPool:
    """The child processes of one worker. There are never more than attempts under way, for each attempt takes one."""

    def __init__(self, handler_file: Path, mark: str, *, level: str, kit: KitConfig, shared: SharedTools) -> None:
        """By `mark` all that they start is found. `kit` is what their tools are like, `shared` what is the worker's."""
        self._handler_file = handler_file.resolve()
        self._level = level
        self._kit = kit
        self._shared = shared
        self.mark = mark
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._ever = False
        self._guardian = Guardian(self.mark)

    def change(self, kit: KitConfig) -> None:
        """Children are to have such tools from now on. Those that have others end with what they are at."""
        if kit != self._kit:
            self._kit = kit
            for child in self._all:
                child.outdated = True

    @property
    def pids(self) -> list[int]:
        """Who is alive now."""
        return [child.pid for child in self._all]

    @property
    def guardian(self) -> Guardian:
        return self._guardian

    async def take(self) -> Child:
        """A child that waits for a job. Give it back with `put`, or `end` it.

        Raises `CrashedError` where none can be started.
        """
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
            await self.end(child)
        self._ever = True
        mark = f"{self.mark}/{secrets.token_hex(4)}"
        child = await Child.start(self._handler_file, self._level, mark, self._kit, self._shared)
        self._all.add(child)
        self._guardian.say(f"+ {child.pid}")
        try:
            await child.ready(_START_SECONDS)
        except BaseException:
            await self.end(child)
            raise
        return child

    def put(self, child: Child) -> None:
        """It has done its job and may do another."""
        self._idle.append(child)

    async def end(self, child: Child) -> None:
        """Kill the child and everything it started. When this returns, none of it runs."""
        # Not to be interrupted halfway: whoever cancels us wants it dead all the more.
        await asyncio.shield(asyncio.ensure_future(self._end(child)))

    async def _end(self, child: Child) -> None:
        await child.kill()
        if child in self._all:
            self._all.discard(child)
            self._guardian.say(f"- {child.pid}")

    async def close(self) -> None:
        """End all of them, and what they started."""
        self._idle.clear()
        children, self._all = self._all, set()
        if self._ever:
            await asyncio.to_thread(end_tree, [child.pid for child in children], self.mark)
            for child in children:
                await child.bury()
        await asyncio.to_thread(self._guardian.close)

    def kill_now(self) -> None:
        """From any thread, when the event loop cannot: kill all of them."""
        end_tree(self.pids, self.mark)


class Child:
    """One child process, and the job it works on."""

    def __init__(self, process: Process, mark: str, kit: KitConfig, shared: SharedTools) -> None:
        self._process = process
        self._mark = mark
        self._job: Job | None = None
        self._desk = ChildServer(shared, self._write)
        self.outdated = False
        """Its tools are no longer what they should be."""
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._done: asyncio.Future[Done] = loop.create_future()
        self._readers = [asyncio.create_task(self._read_frames()), asyncio.create_task(self._read_prints())]
        self._write(Setup(kit))

    @classmethod
    async def start(cls, handler_file: Path, level: str, mark: str, kit: KitConfig, shared: SharedTools) -> Child:
        """Start the process, in a group of its own; `ready` waits for it."""
        # -P: a file in the current folder that is named like a standard module must not take its place.
        module = [sys.executable, "-P", "-u", "-m", "longshore.worker.children.child_main"]
        command = [*module, str(os.getpid()), level, str(handler_file)]
        environment = {**os.environ, MARK: mark}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            limit=_LONGEST_LINE,
            start_new_session=True,
            creationflags=new_group_flags(),
        )
        return cls(process, mark, kit, shared)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Alive, its pipe too, and its tools as they should be."""
        return self._process.returncode is None and not self._readers[0].done() and not self.outdated

    async def ready(self, seconds: float) -> None:
        """Return when the child has imported the handler file."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise CrashedError(
                f"the handler file took more than {seconds:.0f} s to import in a child process"
            ) from None

    async def run(self, job: Job) -> tuple[Outcome, msgspec.Raw]:
        """Work on a job: its outcome, and what it emitted. Raises `CrashedError` where the process died of it."""
        self._job = job
        self._done = asyncio.get_running_loop().create_future()
        stdin = self._process.stdin
        try:
            if stdin is not None:
                self._write(RunJob(job))
                await stdin.drain()
        except ConnectionError:
            raise CrashedError(f"the process died: {await self._death()}") from None
        if self._readers[0].done():
            raise CrashedError(f"the process died: {await self._death()}")
        frame = await self._done
        self._desk.close()
        return outcome_in(frame), frame.records.copy()

    def _write(self, frame: ToChild) -> None:
        """Say something to the child; to one that is dying, nothing."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(pack(frame))

    async def kill(self) -> None:
        """Kill it with all its descendants, and forget it."""
        await asyncio.to_thread(end_tree, [self.pid], self._mark)
        await self.bury()

    async def bury(self) -> None:
        """After its death: collect it and let go of its pipes."""
        self._desk.close()
        # It is dead, so its pipes end at once, unless a stray holds them; what it said last is on its way.
        await asyncio.wait(self._readers, timeout=_LAST_WORDS_SECONDS)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await self._process.wait()
        for future in (self._ready, self._done):
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()  # seen, so that nobody complains that it never was
        transport = getattr(self._process, "_transport", None)
        if transport is not None:  # asyncio closes it only when every pipe has ended, and a stray may hold one
            transport.close()

    async def _read_frames(self) -> None:
        stdout = self._process.stdout
        if stdout is None:
            return
        try:
            while True:
                frame = read_from_child(await stdout.readexactly(length_in(await stdout.readexactly(HEAD))))
                match frame:
                    case LogLine():
                        relay(frame.entry, self._job)
                    case Ready():
                        self._ready.set_result(None)
                    case BrokenHandlerFile():
                        self._ready.set_exception(CrashedError(frame.message))
                    case ChildRequest():
                        self._desk.called(frame)
                    case ChildNotice():
                        self._desk.told(frame)
                    case Done():
                        if not self._done.done():
                            self._done.set_result(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            error = CrashedError(f"the process died: {await self._death()}")
        except (msgspec.MsgspecError, MemoryError, RecursionError) as fault:
            error = CrashedError(f"the process no longer makes sense ({fault})")
        for waiting in (self._ready, self._done):
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # may be nobody's business: an idle child that dies is simply replaced

    async def _read_prints(self) -> None:
        stderr = self._process.stderr
        while stderr is not None:
            try:
                line = await stderr.readline()
            except ValueError:
                log.warning("A handler printed a line too long to log", limit=_LONGEST_LINE)
                continue
            if not line:
                return
            enter_job(self._job)
            if text := line.decode(errors="replace").rstrip():
                log.info(text, source="print")

    async def _death(self) -> str:
        try:
            async with asyncio.timeout(2):
                code = await self._process.wait()
        except TimeoutError:
            return "it closed its pipe"
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"signal {-code} ({signal.Signals(-code).name})"
        except ValueError:
            return f"signal {-code}"


class Guardian:
    """The worker's end of the pipe to its guardian process; started by the first word, and again if it died."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._children: dict[str, None] = {}
        self._speaking = threading.Lock()

    def say(self, line: str) -> None:
        """Send a line (see `guardian`). From any thread."""
        with self._speaking:
            if line.startswith("+"):
                self._children[line] = None
            elif line.startswith("-"):
                self._children.pop(f"+{line[1:]}", None)
            if self._process is None or self._process.poll() is not None:
                self._start()
                if line.startswith("+"):
                    return
            self._write([line])

    def close(self) -> None:
        """Let it go, and wait until it is gone."""
        with self._speaking:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(b"bye\n")
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)

    def _start(self) -> None:
        # As a file and without Longshore's folder on the path (-P): it is to import as little as can be.
        script = Path(__file__).with_name("guardian.py")
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(script), self._mark],
            stdin=PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            creationflags=new_group_flags(),
        )
        self._write(list(self._children))

    def _write(self, lines: list[str]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # If it died just now, the next word starts another one.
        with contextlib.suppress(OSError):
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
