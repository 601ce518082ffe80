"""A server process for tests: real HTTP, any number of queues, and a clock for each that tests may move.

    python -m tests.media.http.serving KEYS_FILE [PORT]

It prints its port. Queue N is served at /queues/N/api. `POST /control` with a JSON object opens a queue
or moves a clock.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvicorn
from litestar.types import Receive, Scope, Send

from longshore.clock import Clock, ManualClock, SystemClock
from longshore.media import open_queue
from longshore.server.app import application
from longshore.server.auth.keys import KeyStore
from longshore.server.served import Served


class Queues:
    """An ASGI application that hands each request to the application of its queue."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._apps: dict[str, Any] = {}
        self._clocks: dict[str, ManualClock] = {}
        self._served: list[Served] = []
        self._stack = AsyncExitStack()

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
        prefix = f"/queues/{number}"
        scope["path"] = scope["path"].removeprefix(prefix)
        scope["raw_path"] = scope["raw_path"].removeprefix(prefix.encode())
        await self._apps[number](scope, receive, send)

    async def _control(
        self, do: str, queue: str = "", seconds: float = 0.0, url: str = "", manual: bool = False
    ) -> Any:
        match do:
            case "open":
                number = str(len(self._apps))
                clock: Clock = SystemClock()
                if manual:
                    clock = self._clocks.setdefault(url, ManualClock())
                served = Served.of(await open_queue(url, clock=clock), self._keys, clock)
                app = application(served)
                await self._stack.enter_async_context(app.lifespan())
                self._apps[number] = app
                self._served.append(served)
                return number
            case "advance":
                self._clocks[url].advance(seconds)
            case "step":
                self._clocks[url].step_wall(seconds)
        return None


async def main(keys: str, port: str = "0") -> None:
    listening = socket.create_server(("127.0.0.1", int(port)))
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
    asyncio.run(main(*sys.argv[1:]))
