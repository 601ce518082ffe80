"""Intercept requests over the browser's debugging connection, for a driver that cannot do so itself.

The browser holds each new page, and each frame from another site, until we intercept its requests: those of the types
that are blocked, or all of them if recorded responses answer them. Others are not intercepted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from longshore.scrape.browser.driver import PausedAnswer

if TYPE_CHECKING:
    import aiohttp

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


EVERYTHING = [{"urlPattern": "*"}]
"""The pattern of all requests."""


def refuse(paused: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the command that refuses a paused request, and its parameters."""
    return "Fetch.failRequest", {"requestId": paused["requestId"], "errorReason": "BlockedByClient"}


class Blocker:
    """A debugging connection that answers certain requests while the browser runs; by default it refuses them."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse,
        patterns: list[dict[str, str]],
        answer: PausedAnswer = refuse,
    ) -> None:
        self._session = session
        self._socket = socket
        self._patterns = patterns
        self._answer = answer
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._enabling: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, address: str, patterns: list[dict[str, str]], answer: PausedAnswer = refuse) -> Blocker:
        """Connect to the browser that listens at `address` and return when requests are intercepted."""
        import aiohttp

        session = aiohttp.ClientSession()
        try:
            async with session.get(f"http://{address}/json/version") as version:
                url = msgspec.json.decode(await version.read())["webSocketDebuggerUrl"]
            socket = await session.ws_connect(url, max_msg_size=0)
        except BaseException:
            await session.close()
            raise
        blocker = cls(session, socket, patterns, answer)
        try:
            # The browser announces the existing pages before it answers this command.
            await blocker._ask("Target.setAutoAttach", _ATTACH)
            await asyncio.gather(*blocker._enabling)
        except BaseException:
            await blocker.close()
            raise
        return blocker

    async def close(self) -> None:
        """Close the connection."""
        self._reading.cancel()
        await asyncio.gather(self._reading, *self._enabling, return_exceptions=True)
        await self._socket.close()
        await self._session.close()

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                await self._handle(msgspec.json.decode(message.data))
        finally:
            for future in self._waiting.values():
                future.cancel()

    async def _handle(self, message: dict[str, Any]) -> None:
        if (future := self._waiting.pop(message.get("id", 0), None)) is not None:
            if not future.done():
                future.set_result(message.get("result"))
        elif message.get("method") == "Target.attachedToTarget":
            task = asyncio.create_task(self._enable_blocking(message["params"]["sessionId"]))
            self._enabling.add(task)
            task.add_done_callback(self._enabling.discard)
        elif message.get("method") == "Fetch.requestPaused":
            command, parameters = self._answer(message["params"])
            await self._send(command, parameters, message["sessionId"])

    async def _enable_blocking(self, session: str) -> None:
        # A target that closed in the meantime never answers; there is nothing left to block in it.
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            # A frame from another site is a target of its own, below the target of its page.
            await self._ask("Target.setAutoAttach", _ATTACH, session)
            await self._ask("Fetch.enable", {"patterns": self._patterns}, session)
            await self._ask("Runtime.runIfWaitingForDebugger", {}, session)

    async def _ask(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._send(method, parameters, session, future)
        return await future

    async def _send(
        self,
        method: str,
        parameters: dict[str, Any],
        session: str | None = None,
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        self._last_id += 1
        if future is not None:
            self._waiting[self._last_id] = future
        message = {"id": self._last_id, "method": method, "params": parameters}
        await self._socket.send_str(msgspec.json.encode(message | ({"sessionId": session} if session else {})).decode())
