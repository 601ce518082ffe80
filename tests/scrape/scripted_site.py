"""A local site that sends scripted responses and records its requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True)
class Answer:
    """One scripted response. With `hangs_up` the connection is closed without one."""

    body: bytes | str = b"hello"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    remote: str


class ScriptedSite:
    """Scripted responses by path, sent in order; the last one repeats. A path without a script answers hello."""

    def __init__(self) -> None:
        self.script: dict[str, list[Answer] | Callable[[web.Request], Answer]] = {"/robots.txt": [Answer(status=404)]}
        self.requests: list[Asked] = []
        self.port = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def asked(self, path: str) -> list[Asked]:
        """Return the requests for this path."""
        return [request for request in self.requests if request.path == path]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedSite]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(Asked(request.method, request.path_qs, request.headers, body, request.remote or ""))
        script = self.script.get(request.path, [Answer()])
        times = len(self.asked(request.path_qs))
        answer = script(request) if callable(script) else script[min(times, len(script)) - 1]
        if answer.hangs_up and request.transport is not None:
            request.transport.close()
        text = answer.body.encode() if isinstance(answer.body, str) else answer.body
        return web.Response(status=answer.status, headers=answer.headers, body=text)


class Silent:
    """Run a server that accepts connections and sends nothing, or only the start of a response; yield host and port."""

    def __init__(self, beginning: bytes = b"") -> None:
        self._beginning = beginning
        self._over = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()
        await asyncio.gather(*self._serving)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        writer.write(self._beginning)
        await self._over.wait()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class SwiftClock:
    """The system clock, except that sleeping returns at once: `slept` lists the durations."""

    boot = ""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.passed = 0.0

    def now(self) -> float:
        return 1_800_000_000.0 + self.passed

    def monotonic(self) -> float:
        return self.passed

    def boottime(self) -> float:
        return self.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds


@dataclass
class NotingPace:
    """A limiter that grants every slot unless told otherwise, and records its calls."""

    slots: list[tuple[str, str]] = field(default_factory=list)
    answers: list[tuple[str, str, int | None, float | None]] = field(default_factory=list)
    delays: list[tuple[str, float]] = field(default_factory=list)
    patience: float = 0.0
    closed: Callable[[str, str], Exception | None] = lambda host, identity: None

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        self.patience = patience
        if (error := self.closed(host, identity)) is not None:
            raise error
        self.slots.append((host, identity))

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        assert seconds >= 0
        self.answers.append((host, identity, status, retry_after))

    def crawl_delay(self, host: str, seconds: float) -> None:
        self.delays.append((host, seconds))
