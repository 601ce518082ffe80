"""Child processes of the suite, started as modules, which works the same on every platform."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

LONGEST_LINE = 2**20


class RunningProcess(Protocol):
    """The methods of an `asyncio.subprocess.Process` that the suite uses."""

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


class SuiteProcess:
    """A running child process, and the lines it has written."""

    def __init__(self, process: RunningProcess) -> None:
        self._process = process
        self.lines: list[str] = []

    async def line(self) -> str | None:
        """Return the next line it writes, or None when it has ended."""
        assert self._process.stdout is not None
        raw = await self._process.stdout.readline()
        # A line without a newline was cut off by the kill: ignore it.
        if not raw.endswith(b"\n"):
            return None
        self.lines.append(raw.decode().rstrip("\r\n"))
        return self.lines[-1]

    async def kill(self) -> list[str]:
        """Kill it as `kill -9` does, and return all its lines."""
        if self._process.returncode is None:
            self._process.kill()
        return await self.end()

    async def end(self) -> list[str]:
        """Wait for its end, and return all its lines."""
        while await self.line() is not None:
            pass
        await self._process.wait()
        return self.lines

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode


async def start_process(module: str, *arguments: str) -> SuiteProcess:
    """Start `python -m module` with these arguments."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdout=PIPE, limit=LONGEST_LINE
    )
    return SuiteProcess(process)


@asynccontextmanager
async def children(module: str, *argument_lists: tuple[str, ...]) -> AsyncIterator[list[SuiteProcess]]:
    """Start one child process of `module` per list of arguments; all are killed at the end of the block."""
    started: list[SuiteProcess] = []
    try:
        for arguments in argument_lists:
            child = await start_process(f"longshore.conformance.{module}", *arguments)
            started.append(child)
        yield started
    finally:
        for child in started:
            await child.kill()
