"""A small HTTP server whose connections are bounded in number and time. Import it only if one is started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp.web import BaseRequest, RequestHandler, Server, StreamResponse

MOST_CONNECTIONS = 64
"""Beyond that, a new connection is closed at once."""
CONNECTION_SECONDS = 20.0
"""A connection is closed after this time, whatever it is doing: each answer takes a fraction of a second."""


class BoundedServer(Server):
    """The server of aiohttp with bounds: everyone who can connect could use up the open files of the process."""

    def __init__(self, handler: Callable[[BaseRequest], Awaitable[StreamResponse]]) -> None:
        super().__init__(handler, access_log=None)
        self._closing: dict[RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Keep the connection for a time, or close it if there are too many."""
        super().connection_made(handler, transport)
        # Not at once: the library has not begun with the connection yet.
        seconds = CONNECTION_SECONDS if len(self.connections) <= MOST_CONNECTIONS else 0.0
        self._closing[handler] = asyncio.get_running_loop().call_later(seconds, transport.abort)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Note that a connection has ended."""
        super().connection_lost(handler, exc)
        if (closing := self._closing.pop(handler, None)) is not None:
            closing.cancel()
