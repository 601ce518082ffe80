"""Blocks types of resources in a browser whose driver cannot: over the browser's own debugging connection.

Each page, and each frame from another site, is made to wait at its start until its requests of these types are ours to
refuse. All other requests are not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import aiohttp

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


class Blocker:
    """Refuses requests for as long as the browser runs."""

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse, types: list[str]
    ) -> None:
        self._session = session
        self._socket = socket
        self._patterns = [{"resourceType": name} for name in types]
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._arming: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, address: str, types: list[str]) -> Blocker:
        """Connect to the browser that listens at `address`, and block from now on."""
        import aiohttp

        session = aiohttp.ClientSession()
        try:
            async with session.get(f"http://{address}/json/version") as answer:
                url = msgspec.json.decode(await answer.read())["webSocketDebuggerUrl"]
            socket = await session.ws_connect(url, max_msg_size=0)
        except BaseException:
            await session.close()
            raise
        blocker = cls(session, socket, types)
        try:
            # Answered after the pages there are have been announced.
            await blocker._ask("Target.setAutoAttach", _ATTACH)
            await asyncio.gather(*blocker._arming)
        except BaseException:
            await blocker.close()
            raise
        return blocker

    async def close(self) -> None:
        """Let go of the connection."""
        self._reading.cancel()
        await asyncio.gather(self._reading, *self._arming, return_exceptions=True)
        await self._socket.close()
        await self._session.close()

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                await self._hear(msgspec.json.decode(message.data))
        finally:
            for future in self._waiting.values():
                future.cancel()

    async def _hear(self, said: dict[str, Any]) -> None:
        if (future := self._waiting.pop(said.get("id", 0), None)) is not None:
            if not future.done():
                future.set_result(said.get("result"))
        elif said.get("method") == "Target.attachedToTarget":
            task = asyncio.create_task(self._arm(said["params"]["sessionId"]))
            self._arming.add(task)
            task.add_done_callback(self._arming.discard)
        elif said.get("method") == "Fetch.requestPaused":
            refusal = {"requestId": said["params"]["requestId"], "errorReason": "BlockedByClient"}
            await self._send("Fetch.failRequest", refusal, said["sessionId"])

    async def _arm(self, session: str) -> None:
        # A target that is gone again answers nothing more, and nothing is lost with it.
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            # Frames from other sites are targets of their own, below their page.
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
        self._numbers += 1
        if future is not None:
            self._waiting[self._numbers] = future
        said = {"id": self._numbers, "method": method, "params": parameters}
        await self._socket.send_str(msgspec.json.encode(said | ({"sessionId": session} if session else {})).decode())
