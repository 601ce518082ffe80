"""Bounds for clients that have not shown a key yet: the size of a request without its body, and the time it may take.

uvicorn has neither: everyone who can connect could fill the memory with headers, and hold connections without a word.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 * 1024
"""Bytes of a request besides its body: the line with the URL, headers, trailers."""
HEAD_SECONDS = 30.0
"""From the beginning of a connection or request to the end of its headers."""


class BoundedConnection(HttpToolsProtocol):
    """The protocol of uvicorn with bounds."""

    _head_bytes = 0
    _body_bytes = 0
    _is_new = False
    """Whether a request began in the bytes that are just being read."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, not forever."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._got_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; refuse it if it has too much besides its body."""
        body_before = self._body_bytes
        super().data_received(data)
        if self._is_new:
            self._is_new = False
            self._head_bytes = 0
            return
        self._head_bytes += len(data) - (self._body_bytes - body_before)
        # Each piece of a body in pieces has a line of its own.
        if self._head_bytes > MOST_HEAD + self._body_bytes and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
        self._is_new = True
        self._body_bytes = 0
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Note that the headers are complete."""
        self._got_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def _wait_for_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _got_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
