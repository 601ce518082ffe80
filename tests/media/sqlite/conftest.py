"""A queue in a file of its own, on a clock that stands still, and the same file seen with plain SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.media import open_queue
from longshore.queue import Queue


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queue(file: Path, clock: ManualClock) -> AsyncIterator[Queue]:
    queue = await open_queue(f"sqlite:///{file}", clock=clock)
    yield queue
    await queue.close()


@pytest.fixture
def tables(queue: Queue, file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        yield db
