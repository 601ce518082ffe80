"""The process of one worker, as its supervisor sees it: the lifeline, the worker's output, and its exit.

The worker has ended when its process has exited, not when its pipes are closed: copies that the worker forked may still
hold the pipes open. They are killed with it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from longshore.fleet.supervise.lifeline import GOODBYE, STOP
from longshore.system.private_files import make_private
from longshore.system.processes import kill_group, new_group_flags

LAST_OUTPUT_SECONDS = 2.0
"""Seconds to wait for the last output of a worker."""
_LONGEST_LINE = 65536


class WorkerProcess(asyncio.SubprocessProtocol):
    """A worker process. Call `close` when it has ended."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._partial = b""
        self._exited = asyncio.Event()
        self._output_ended = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self.reported = False
        """Whether it has written anything, so that its start was successful."""
        self.announced_exit = False
        """Whether it has reported that it ends as intended."""

    @classmethod
    async def start(
        cls, arguments: Sequence[str], log: Path, environment: Mapping[str, str], heard: Callable[[bytes], None] | None
    ) -> Self:
        """Start the process. `heard` is called with each line of its standard output; without it, they go to the log.

        Raise `OSError` if the process cannot be started or its log cannot be opened.
        """
        make_private(log.parent)
        with os.fdopen(_opened(log), "ab") as file:
            _, process = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(heard or _ignore),
                *arguments,
                stdin=subprocess.PIPE,
                stdout=file if heard is None else subprocess.PIPE,
                stderr=file,
                env=dict(environment),
                # Ctrl-C must reach only the supervisor, which then asks the workers to stop.
                start_new_session=True,
                creationflags=new_group_flags(),
            )
        return process

    @property
    def pid(self) -> int:
        return self._running.get_pid()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._running.get_returncode()

    @property
    def _running(self) -> asyncio.SubprocessTransport:
        assert self._transport is not None, "made by `start`"  # noqa: S101
        return self._transport

    def ask_to_stop(self) -> None:
        """Write one stop request to its lifeline. Do nothing if the worker is gone already."""
        lifeline = self._running.get_pipe_transport(0)
        if isinstance(lifeline, asyncio.WriteTransport):
            with suppress(OSError, RuntimeError):
                lifeline.write(STOP)

    def kill(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError):
            self._running.kill()

    async def ended(self) -> None:
        """Return when the process has exited, even if other processes hold its pipes."""
        await self._exited.wait()

    async def close(self) -> None:
        """After its exit: kill the processes it forked, read its last output, and close its pipes."""
        # It led its own process group; the system does not reuse the id while a process of the group lives.
        kill_group(self.pid)
        if self._running.get_pipe_transport(1) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_OUTPUT_SECONDS):
                    await self._output_ended.wait()
        self._running.close()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        *lines, partial = (self._partial + data).split(b"\n")
        # Truncate lines longer than `_LONGEST_LINE`: the worker must not block on its output.
        self._partial = partial[-_LONGEST_LINE:]
        for line in lines:
            self.reported = True
            if line == GOODBYE:
                self.announced_exit = True
            else:
                self._heard(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self._output_ended.set()

    def process_exited(self) -> None:
        self._exited.set()


def _ignore(_: Any) -> None:
    return None


def _opened(log: Path) -> int:
    """Open a log for appending; no other user can read a new one."""
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
