"""A server process for tests: real HTTP, any number of queues, and a clock for each that tests may move.

    python -m tests.media.http.serving KEYS_FILE [PORT]

It prints its port. Queue N is served at /queues/N/api. `POST /control` with a JSON object opens or closes a queue,
or moves a clock. A process that takes the place of a killed one opens the queues again when they are asked for, with
their clocks where they were.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar
from litestar.types import Receive, Scope, Send

from longshore.clock import Clock, ManualClock, SystemClock
from longshore.media import open_queue
from longshore.server.app import application
from longshore.server.auth.keys import KeyStore
from longshore.server.process import event_loop
from longshore.server.served import Served


class Queues:
    """An ASGI application that hands each request to the application of its queue."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._apps: dict[str, Any] = {}
        self._clocks: dict[str, ManualClock] = {}
        self._opened: dict[str, tuple[asyncio.Event, asyncio.Task[tuple[Litestar, Served]]]] = {}
        self._unused: list[tuple[Litestar, Served]] = []
        self._opening = asyncio.Lock()
        self._known = keys.path.with_name("queues")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, first, number, *_ = [*scope["path"].split("/", 3), "", ""]
        if first == "control":
            body = b""
            while True:
                message = await receive()
                assert message["type"] == "http.request"
                body += message["body"]
                if not message["more_body"]:
                    break
            answer = json.dumps(await self._control(**json.loads(body))).encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": answer, "more_body": False})
            return
        await self._reopen(number)
        prefix = f"/queues/{number}"
        scope["path"] = scope["path"].removeprefix(prefix)
        scope["raw_path"] = scope["raw_path"].removeprefix(prefix.encode())
        await self._apps[number](scope, receive, send)

    async def _reopen(self, number: str) -> None:
        """Open a queue of the process before this one, unless it is open."""
        async with self._opening:
            if number not in self._apps:
                url, _, time = (self._known / number).read_text().partition("\n")
                clock: Clock = SystemClock()
                if time:
                    clock = self._clocks.setdefault(url, ManualClock(float(time)))
                await self._open(number, url, clock)

    async def _control(
        self, do: str, queue: str = "", seconds: float = 0.0, url: str = "", manual: bool = False
    ) -> Any:
        match do:
            case "open":
                number = _number(url, manual=manual)
                if number not in self._apps:
                    clock: Clock = SystemClock()
                    if manual:
                        clock = self._clocks.setdefault(url, ManualClock())
                    self._know(number, url, clock)
                    await self._open(number, url, clock)
                return number
            case "close":
                for number in [each for each in self._opened if (self._known / each).exists()]:
                    if (self._known / number).read_text().partition("\n")[0] == url:
                        del self._apps[number]
                        closing, living = self._opened.pop(number)
                        closing.set()
                        self._unused.append(await living)
            case "advance" | "step":
                number = _number(url, manual=True)
                await self._reopen(number)
                clock = self._clocks[url]
                (clock.advance if do == "advance" else clock.step_wall)(seconds)
                self._know(number, url, clock)
        return None

    def _know(self, number: str, url: str, clock: Clock) -> None:
        """Note a queue and the time of its clock, for a process that takes the place of this one."""
        self._known.mkdir(exist_ok=True)
        time = str(clock.now()) if isinstance(clock, ManualClock) else ""
        (self._known / number).write_text(f"{url}\n{time}")

    async def _open(self, number: str, url: str, clock: Clock) -> None:
        app, served = self._application(Served.of(await open_queue(url, clock=clock), self._keys, clock))
        opened, closing = asyncio.Event(), asyncio.Event()

        async def live() -> tuple[Litestar, Served]:
            # Begun and ended in one task, as the framework wants it.
            async with app.lifespan():
                opened.set()
                await closing.wait()
            return app, served

        self._opened[number] = closing, asyncio.create_task(live())
        await opened.wait()
        self._apps[number] = app

    def _application(self, served: Served) -> tuple[Litestar, Served]:
        """Return an application that serves this queue: one whose queue was closed, if there is one.

        To make the routes of an application takes longer than most tests of the suite.
        """
        if not self._unused:
            return application(served), served
        app, before = self._unused.pop()
        vars(before).clear()
        vars(before).update(vars(served))
        return app, before


def _number(url: str, *, manual: bool) -> str:
    return hashlib.sha256(f"{url} {manual}".encode()).hexdigest()[:16]


async def main(keys: str, port: str = "0") -> None:
    listening = socket.create_server(("127.0.0.1", int(port)))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the server process does
    config = uvicorn.Config(
        Queues(KeyStore(Path(keys))),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
    )
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=event_loop) as runner:  # as the server process does
        runner.run(main(*sys.argv[1:]))
