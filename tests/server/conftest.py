"""A server in this process, on a loopback port, with a queue in memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import hypothesis
import pytest
import uvicorn

from longshore.clock import Clock, ManualClock
from longshore.job import NewJob
from longshore.media.memory import MemoryQueue
from longshore.queue import Queue
from longshore.server.app import application
from longshore.server.auth.keys import KeyStore, Scope
from longshore.server.bounded_connection import BoundedConnection
from longshore.server.served import Served
from longshore.server.state_changes import StateChanges


def pytest_configure(config: pytest.Config) -> None:
    """Make the profile of the tests that send what hypothesis thinks of."""
    hypothesis.settings.register_profile(
        "contract",
        max_examples=200 if config.getoption("--long") else 5,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        derandomize=True,
        database=None,
    )


class Api:
    """A client that sends what a test wants, wrong requests included."""

    def __init__(self, url: str, served: Served, session: aiohttp.ClientSession) -> None:
        self.url, self.served, self._session = url, served, session
        self.key = self.make(Scope.ADMIN)

    @property
    def medium(self) -> Queue:
        """The queue behind all that the server does with it."""
        assert isinstance(self.served.queue, StateChanges)
        return self.served.queue.unwrap()

    def make(self, *scopes: Scope, **limits: Any) -> str:
        """Return a new key."""
        return self.served.keys.add("test", scopes, 0.0, **limits)

    async def send(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, headers: Any = None, data: Any = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        sent = {"Authorization": f"Bearer {self.key if key is None else key}"} | (headers or {})
        content = {"json": body} if body is not None else {"data": BytesIO(data)} if data is not None else {}
        async with self._session.request(method, f"{self.url}{path}", headers=sent, **content) as response:
            return response.status, await response.json(content_type=None)

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        """Return the answer to a request that succeeds."""
        status, answer = await self.send("POST", path, body, **options)
        assert status in {200, 202}, answer
        return answer

    async def get(self, path: str, **options: Any) -> Any:
        """Return the answer to a request that succeeds."""
        status, answer = await self.send("GET", path, **options)
        assert status == 200, answer
        return answer

    async def submit(self, *keys: str, run: str = "r", kind: str = "page") -> None:
        """Create jobs."""
        jobs = [NewJob(run=run, kind=kind, key=key, payload={"n": key}) for key in keys]
        await self.served.queue.submit(jobs)

    async def claim(self, label: str = "anna", *, limit: int = 1, key: str | None = None) -> list[Any]:
        """Return the claimed jobs with their lease tokens."""
        body = {"worker": {"label": label, "incarnation": f"{label}/1"}, "limit": limit}
        jobs: list[Any] = (await self.post("/claims", body, key=key))["jobs"]
        return jobs

    async def settle(self, lease: str, result: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        """Complete a job."""
        outcome = {"type": "completed", "result": result}
        return await self.send("POST", "/settlements", {"settlements": [{"lease": lease, "outcome": outcome}]}, key=key)


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    clock = ManualClock()
    async with serving(MemoryQueue(clock), clock, tmp_path) as served:
        yield served


@asynccontextmanager
async def serving(queue: Queue, clock: Clock, folder: Path, *, read_only: bool = False) -> AsyncIterator[Api]:
    """Serve a queue in this process; `folder` keeps the keys."""
    keys = KeyStore(folder / "keys.json")
    keys.add("first", [Scope.ADMIN], 0.0)
    served = Served.of(queue, keys, clock, read_only=read_only)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the server process does
    server = _Quiet(
        uvicorn.Config(
            application(served),
            http=BoundedConnection,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
    )
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1", served, session)
    finally:
        served.closing.set()
        server.should_exit = True
        await running
