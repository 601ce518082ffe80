"""The directory medium passes the suite."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.conformance import ConformanceTests, Harness, NewHarness, ProcessTests
from longshore.media.directory import open_queue
from longshore.queue import Queue


class DirectoryHarness(Harness):
    examples = 12  # every step waits for the disk

    def __init__(self, folder: Path) -> None:
        self._clock = ManualClock()
        self._folder = folder
        self._url = f"dir://{folder}"

    async def open(self) -> Queue:
        return await open_queue(self._url, self._clock)

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def set_clock(self, seconds: float) -> bool:
        self._clock.step_wall(seconds)
        return True

    def url_for_processes(self) -> str:
        return self._url

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        saved = self._folder.with_suffix(".saved")
        shutil.copytree(self._folder, saved, symlinks=True)

        async def restore() -> None:
            shutil.rmtree(self._folder)
            saved.rename(self._folder)

        return restore


@pytest.mark.ledger("F1")
class TestDirectory(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, tmp_path: Path) -> NewHarness:
        numbers = count()
        return lambda: DirectoryHarness(tmp_path / str(next(numbers)))
