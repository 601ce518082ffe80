"""One child process of a worker, seen from the worker: its pipes, the job it works on, and its death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec
import structlog

from longshore.errors import CrashedError
from longshore.job import Job
from longshore.observe.logs import enter_job, relay
from longshore.outcome import Outcome
from longshore.system.processes import new_group_flags
from longshore.worker.children.child_environment import child_environment
from longshore.worker.children.guardian import MARK, end_tree
from longshore.worker.children.rpc_server import RpcServer, SharedTools
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

_LAST_OUTPUT_SECONDS = 1.0
_LONGEST_LINE = 1 << 20

log = structlog.get_logger()


class ChildProcess:
    """One child process, and the job it works on."""

    def __init__(self, process: Process, mark: str, setup: Setup, shared: SharedTools) -> None:
        self._process = process
        self._mark = mark
        self._job: Job | None = None
        self._server = RpcServer(shared, self._write)
        self.outdated = False
        """Whether the configuration of its tools has changed since it started."""
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._done: asyncio.Future[Done] = loop.create_future()
        self._readers = [asyncio.create_task(self._read_frames()), asyncio.create_task(self._read_output())]
        self._write(setup)

    @classmethod
    async def start(cls, handler_file: Path, level: str, mark: str, setup: Setup, shared: SharedTools) -> ChildProcess:
        """Start the process, in a process group of its own; `ready` waits for it."""
        # -P: a file in the current folder that is named like a standard module must not take its place.
        module = [sys.executable, "-P", "-u", "-m", "longshore.worker.children.child_main"]
        command = [*module, str(os.getpid()), level, str(handler_file)]
        environment = child_environment(os.environ, setup.tools.pass_env) | {MARK: mark}
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
        return cls(process, mark, setup, shared)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether the process and its pipe are alive, and its tools up to date."""
        return self._process.returncode is None and not self._readers[0].done() and not self.outdated

    async def ready(self, seconds: float) -> None:
        """Return when the child has imported the handler file. Raises `CrashedError` after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise CrashedError(
                f"the handler file took more than {seconds:.0f} s to import in a child process"
            ) from None

    async def run(self, job: Job) -> tuple[Outcome, msgspec.Raw]:
        """Run a job. Returns its outcome and its records. Raises `CrashedError` if the process died."""
        self._job = job
        self._done = asyncio.get_running_loop().create_future()
        stdin = self._process.stdin
        try:
            if stdin is not None:
                self._write(RunJob(job))
                await stdin.drain()
        except ConnectionError:
            raise CrashedError(f"the process died: {await self._cause_of_death()}") from None
        if self._readers[0].done():
            raise CrashedError(f"the process died: {await self._cause_of_death()}")
        frame = await self._done
        self._server.close()
        return outcome_in(frame), frame.records.copy()

    def _write(self, frame: ToChild) -> None:
        """Send a frame to the child; nothing is sent to one whose pipe is closing."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(pack(frame))

    def kill_now(self) -> None:
        """Kill the process alone; `kill` then ends its descendants and cleans up."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def kill(self) -> None:
        """Kill it with all its descendants, and clean up."""
        await asyncio.to_thread(end_tree, [self.pid], self._mark)
        await self.clean_up()

    async def clean_up(self) -> None:
        """Collect the dead process and close its pipes."""
        self._server.close()
        # The process is dead, so its pipes end at once, unless one of its descendants holds them. Its last output may
        # still be in them.
        await asyncio.wait(self._readers, timeout=_LAST_OUTPUT_SECONDS)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await self._process.wait()
        for future in (self._ready, self._done):
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()  # retrieved, or asyncio would log that it never was
        transport = getattr(self._process, "_transport", None)
        if transport is not None:  # asyncio closes it only when every pipe has ended, and a descendant may hold one
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
                        self._server.requested(frame)
                    case ChildNotice():
                        self._server.notified(frame)
                    case Done():
                        if not self._done.done():
                            self._done.set_result(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            error = CrashedError(f"the process died: {await self._cause_of_death()}")
        except (msgspec.MsgspecError, MemoryError, RecursionError) as fault:
            error = CrashedError(f"the process no longer makes sense ({fault})")
        for waiting in (self._ready, self._done):
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # retrieved: an idle child that dies is replaced without a log line

    async def _read_output(self) -> None:
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

    async def _cause_of_death(self) -> str:
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
