"""The processes of the suite are copies of one that has imported the package: imports take longer than most tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.services.warm import Started, Warm

from longshore.conformance import child_processes
from longshore.conformance.child_processes import LONGEST_LINE, SuiteProcess

_PATIENCE = 300.0


class _Copy:
    """A copy, as the suite knows processes."""

    def __init__(self, started: Started, stdout: asyncio.StreamReader) -> None:
        self._started = started
        self.stdout = stdout

    @property
    def returncode(self) -> int | None:
        return self._started.poll()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._started.pid, 9)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._started.wait, _PATIENCE)


def _started(warm: Warm, module: str, arguments: Sequence[str], out: int) -> Started:
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        return warm.start(arguments, cwd=Path.cwd(), env=dict(os.environ), streams=(nothing, out, 2), module=module)
    finally:
        os.close(nothing)
        os.close(out)


def _copies_of(warm: Warm) -> Callable[..., Awaitable[SuiteProcess]]:
    async def start_process(module: str, *arguments: str) -> SuiteProcess:
        said, out = os.pipe()
        started = _started(warm, module, arguments, out)
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(said, "rb")
        )
        return SuiteProcess(_Copy(started, reader))

    return start_process


@pytest.fixture(autouse=True)
def copied_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of a test as copies, where that is possible."""
    if "url" not in request.fixturenames:
        return
    warm: Warm | None = request.getfixturevalue("warm")
    if warm is not None and warm.can(dict(os.environ)):
        monkeypatch.setattr(child_processes, "start_process", _copies_of(warm))
