"""The suite of every medium, over HTTP with faults: a server that is killed, and connections that break.

A caller does what a worker does: if it gets no answer, it calls again. Some tests of the suite run, chosen by their
names (`conftest.py`); all of them with `--long`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from tests.media.http.faulty_proxy import FaultyProxy
from tests.media.http.repeating import RepeatingQueue
from tests.media.http.server_process import HttpOverPostgresHarness, HttpOverSqliteHarness, ServerProcess
from tests.services.postgres import PostgresServer

from longshore.conformance import ConformanceTests, NewHarness
from longshore.errors import QueueUnavailableError
from longshore.media.http import connection
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.queue import Queue


@pytest.fixture(scope="module")
def mortal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own: others must not be disturbed when it is killed."""
    process = ServerProcess(tmp_path_factory.mktemp("mortal"))
    yield process
    process.stop()


class Killings:
    """Kills the server before one of the first calls of a test, with SIGKILL, and starts another one."""

    def __init__(self, server: ServerProcess, seed: str) -> None:
        self._server = server
        self._left = random.Random(seed).randrange(1, 12)

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._server.kill_and_restart()  # nothing else happens meanwhile, so that calls after it find a server

    async def connect(self, url: str) -> Queue:
        queue = await HttpQueue.open(ApiConnection(url, self._server.key))
        return cast("Queue", RepeatingQueue(queue, self))


class _Sqlite(HttpOverSqliteHarness):
    examples = 3


class _Postgres(HttpOverPostgresHarness):
    examples = 3


class TestOverSqliteWithAKilledServer(ConformanceTests):
    @pytest.fixture
    def new_harness(self, mortal_server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> NewHarness:
        killings, numbers = Killings(mortal_server, request.node.name), count()
        return lambda: _Sqlite(mortal_server, tmp_path / f"{next(numbers)}.db", killings.connect)


class TestOverPostgresWithAKilledServer(ConformanceTests):
    @pytest.fixture
    def new_harness(
        self, mortal_server: ServerProcess, server: PostgresServer, request: pytest.FixtureRequest
    ) -> NewHarness:
        killings = Killings(mortal_server, request.node.name)
        return lambda: _Postgres(mortal_server, server.url, killings.connect, reuse=False)


class TestOverConnectionsThatBreak(ConformanceTests):
    @pytest.fixture
    def faulty_proxy(
        self, api_server: ServerProcess, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[FaultyProxy]:
        monkeypatch.setattr(connection, "_ANSWER_SECONDS", 4.0)
        proxy = FaultyProxy(int(api_server.port), request.node.name)
        yield proxy
        proxy.stop()

    @pytest.fixture
    def new_harness(self, api_server: ServerProcess, faulty_proxy: FaultyProxy, tmp_path: Path) -> NewHarness:
        async def connect(url: str) -> Queue:
            through = url.replace(f":{api_server.port}/", f":{faulty_proxy.port}/")
            for _ in range(20):
                try:
                    queue = await HttpQueue.open(ApiConnection(through, api_server.key))
                except QueueUnavailableError:
                    await asyncio.sleep(0)
                else:
                    return cast("Queue", RepeatingQueue(queue))
            raise AssertionError("every connection broke")

        numbers = count()
        return lambda: _Sqlite(api_server, tmp_path / f"{next(numbers)}.db", connect)
