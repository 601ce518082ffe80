"""Child processes of the suite: started as modules, so that it works the same wherever Python does."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ChildProcess:
    """A running program of the suite, and what it has said so far."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lines: list[str] = []

    async def line(self) -> str | None:
        """The next line it says, or None when it has ended."""
        assert self._process.stdout is not None
        raw = await self._process.stdout.readline()
        # A line without an end was cut off by the kill: it says nothing.
        if not raw.endswith(b"\n"):
            return None
        self.lines.append(raw.decode().rstrip("\r\n"))
        return self.lines[-1]

    async def kill(self) -> list[str]:
        """Kill it as `kill -9` does, and return all that it said."""
        if self._process.returncode is None:
            self._process.kill()
        return await self.end()

    async def end(self) -> list[str]:
        """Wait for its end, and return all that it said."""
        while await self.line() is not None:
            pass
        await self._process.wait()
        return self.lines

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode


@asynccontextmanager
async def children(module: str, *argument_lists: tuple[str, ...]) -> AsyncIterator[list[ChildProcess]]:
    """Several of a program at once, one for each list of arguments; none of them outlives the block."""
    started: list[ChildProcess] = []
    try:
        for arguments in argument_lists:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"longshore.conformance.{module}", *arguments, stdout=PIPE, limit=2**20
            )
            started.append(ChildProcess(process))
        yield started
    finally:
        for child in started:
            await child.kill()
