"""The process of one worker, as its supervisor sees it: the lifeline in, what it says out, and its end.

Its end is the end of the process itself. A worker that forked leaves copies of itself that hold its pipes open, and
whoever waits for the pipes waits for those; they are ended with it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from longshore.fleet.supervise.lifeline import GOODBYE, STOP
from longshore.system.processes import kill_group, new_group_flags

LAST_WORDS = 2.0
"""Seconds that what a worker said last may be on its way."""
_LONGEST_LINE = 65536


class WorkerProcess(asyncio.SubprocessProtocol):
    """A worker from its start to its end. `close` it when it has ended."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._begun = b""
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self.reported = False
        """Whether it has said anything: it was started well."""
        self.said_goodbye = False
        """Whether it has said that it ends because it has come to its end."""

    @classmethod
    async def start(
        cls, arguments: Sequence[str], log: Path, environment: Mapping[str, str], heard: Callable[[bytes], None] | None
    ) -> Self:
        """Start it. `heard` is told each line of its standard output; without it, those go to the log.

        Raises `OSError` where the system will not, or its log cannot be opened.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            _, process = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(heard or _ignore),
                *arguments,
                stdin=subprocess.PIPE,
                stdout=file if heard is None else subprocess.PIPE,
                stderr=file,
                env=dict(environment),
                # Ctrl-C reaches the supervisor alone, which then asks the workers in its own order.
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
        assert self._transport is not None, "it is made by `start`"  # noqa: S101
        return self._transport

    def ask_to_stop(self) -> None:
        """One request on its lifeline. A worker that is gone already needs none."""
        lifeline = self._running.get_pipe_transport(0)
        if isinstance(lifeline, asyncio.WriteTransport):
            with suppress(OSError, RuntimeError):
                lifeline.write(STOP)

    def kill(self) -> None:
        """End it without asking."""
        with suppress(ProcessLookupError):
            self._running.kill()

    async def ended(self) -> None:
        """Return when the process has ended, whoever else may hold its pipes."""
        await self._exited.wait()

    async def close(self) -> None:
        """After its end: end what it forked, hear its last words, and let go of its pipes."""
        # It led a group of its own, whose number no other process gets while one of the group lives.
        kill_group(self.pid)
        if self._running.get_pipe_transport(1) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._silent.wait()
        self._running.close()

    # What the event loop tells it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        *lines, begun = (self._begun + data).split(b"\n")
        # Of a line beyond all measure the rest is let go by: whoever writes it must not be held up.
        self._begun = begun[-_LONGEST_LINE:]
        for line in lines:
            self.reported = True
            if line == GOODBYE:
                self.said_goodbye = True
            else:
                self._heard(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self._silent.set()

    def process_exited(self) -> None:
        self._exited.set()


def _ignore(_: Any) -> None:
    return None
