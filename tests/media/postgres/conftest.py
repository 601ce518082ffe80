"""Each test has a schema of its own in the PostgreSQL of the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest
from tests.services.postgres import PostgresServer

from longshore.clock import SystemClock
from longshore.media.postgres import PostgresQueue

_numbers = count()


@pytest.fixture
def url(server: PostgresServer) -> str:
    """A queue URL nobody has used: the schema does not exist yet."""
    return f"{server.url}?schema=test_{next(_numbers)}"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[PostgresQueue]:
    opened = await PostgresQueue.open(url, SystemClock())
    yield opened
    await opened.close()
