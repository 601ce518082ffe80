"""Every medium of the package passes the suite."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.conformance import ConformanceTests, Harness, NewHarness, ProcessTests
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.queue import Queue


class MemoryHarness(Harness):
    examples = 12  # it is the reference itself

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._queue = MemoryQueue(self._clock)

    async def open(self) -> Queue:
        return self._queue

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def set_clock(self, seconds: float) -> bool:
        self._clock.step_wall(seconds)
        return True


class TestMemory(ConformanceTests):
    @pytest.fixture
    def new_harness(self) -> NewHarness:
        return MemoryHarness


class SqliteHarness(Harness):
    def __init__(self, file: Path) -> None:
        self._clock = ManualClock()
        self._file = file
        self._url = f"sqlite:///{file}"

    async def open(self) -> Queue:
        return await open_queue(self._url, clock=self._clock)

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def set_clock(self, seconds: float) -> bool:
        self._clock.step_wall(seconds)
        return True

    def url_for_processes(self) -> str:
        return self._url

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        saved = self._file.with_suffix(".saved")
        shutil.copy(self._file, saved)

        async def restore() -> None:
            shutil.copy(saved, self._file)

        return restore


@pytest.mark.ledger("F1")
class TestSqlite(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, tmp_path: Path) -> NewHarness:
        numbers = count()
        return lambda: SqliteHarness(tmp_path / f"{next(numbers)}.db")
