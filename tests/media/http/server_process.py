"""The test server as a process: started once for each test process, asked to open queues and to move their clocks."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.media.postgres.harness import PostgresHarness

from longshore.conformance import Harness
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.queue import Queue
from longshore.server.auth.keys import KeyStore, Scope

ROOT = Path(__file__).parents[3]


class ServerProcess:
    """A process that serves any number of queues."""

    def __init__(self, folder: Path) -> None:
        self._keys = folder / "keys.json"
        self.key = KeyStore(self._keys).add("tests", [Scope.ADMIN], 0.0)
        self._process = self._started()

    def _started(self, port: str = "0") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.media.http.serving", str(self._keys), port]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self.port = process.stdout.readline().strip()
        assert self.port, "the server did not start"
        return process

    def control(self, **order: object) -> str:
        """Send an order, and return the answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/control", json.dumps(order).encode())
        with urllib.request.urlopen(request) as answer:
            return str(json.loads(answer.read()))

    def open(self, url: str, *, manual: bool) -> str:
        """Open a queue in the server, and return its URL over HTTP."""
        return f"http://127.0.0.1:{self.port}/queues/{self.control(do='open', url=url, manual=manual)}/api"

    async def connect(self, url: str) -> Queue:
        """Open a queue of this server."""
        return await HttpQueue.open(ApiConnection(url, self.key))

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def kill_and_restart(self) -> None:
        """Kill the process with SIGKILL, and start another one on the same port."""
        self.stop()
        self._process = self._started(self.port)


Connect = Callable[[str], Awaitable[Queue]]
"""Opens the queue at a URL of the server."""


class HttpOverPostgresHarness(PostgresHarness):
    """A queue over HTTP whose server keeps it in PostgreSQL."""

    def __init__(
        self, server: ServerProcess, database: str, connect: Connect | None = None, *, reuse: bool = True
    ) -> None:
        super().__init__(database, reuse=reuse)
        self._server = server
        self._connect = connect or server.connect

    async def open(self) -> Queue:
        return await self._connect(await asyncio.to_thread(self._server.open, self._url, manual=False))

    def url_for_processes(self) -> str:
        return self._server.open(super().url_for_processes(), manual=False)

    async def back_up(self) -> None:  # type: ignore[override]
        """Do nothing: the server would have to be stopped."""

    async def close(self) -> None:
        if "_url" in vars(self):
            await asyncio.to_thread(self._server.control, do="close", url=self._url)
        await super().close()


class HttpOverSqliteHarness(Harness):
    """A queue over HTTP whose server keeps it in SQLite."""

    examples = 15

    def __init__(self, server: ServerProcess, file: Path, connect: Connect | None = None) -> None:
        self._server = server
        self._connect = connect or server.connect
        self._behind = f"sqlite:///{file}"
        self._url: str | None = None

    async def open(self) -> Queue:
        if self._url is None:
            self._url = await asyncio.to_thread(self._server.open, self._behind, manual=True)
        return await self._connect(self._url)

    async def advance(self, seconds: float) -> None:
        await asyncio.to_thread(self._server.control, do="advance", url=self._behind, seconds=seconds)

    async def set_clock(self, seconds: float) -> bool:
        await asyncio.to_thread(self._server.control, do="step", url=self._behind, seconds=seconds)
        return True

    def url_for_processes(self) -> str:
        return self._server.open(self._behind, manual=False)

    async def close(self) -> None:
        await asyncio.to_thread(self._server.control, do="close", url=self._behind)
