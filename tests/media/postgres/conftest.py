"""One PostgreSQL for the session; each test has a schema of its own in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
from tests.services.postgres import PostgresServer, ServiceMissingError

from longshore.clock import SystemClock
from longshore.media.postgres import PostgresQueue

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running server. Where there are no binaries the tests are skipped on a laptop, and fail in CI."""
    try:
        running = PostgresServer()
    except ServiceMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with running:
        yield running


@pytest.fixture
def url(server: PostgresServer) -> str:
    """A queue URL nobody has used: the schema does not exist yet."""
    return f"{server.url}?schema=test_{next(_numbers)}"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[PostgresQueue]:
    opened = await PostgresQueue.open(url, SystemClock())
    yield opened
    await opened.close()
