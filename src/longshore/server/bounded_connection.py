"""Bounds for clients: the size of a request without its body, and the time that a request and its answer may take.

uvicorn has none of them: everyone who can connect could fill the memory with headers, and hold connections without a
word. Someone with a key could hold them with a body that never ends, or by not reading the answer.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 * 1024
"""Bytes of a request besides its body: the line with the URL, headers, trailers."""
HEAD_SECONDS = 30.0
"""From the beginning of a connection or request to the end of its headers."""
BODY_SECONDS, LEAST_BODY = 30.0, 16 * 1024
"""In each period of this length, a body that is not complete must bring this many bytes."""
ANSWER_SECONDS = 60.0
"""A client that reads nothing of a waiting answer for this long is dropped."""


class BoundedConnection(HttpToolsProtocol):
    """The protocol of uvicorn with bounds."""

    _head_bytes = 0
    _body_bytes = 0
    _is_new = False
    """Whether a request began in the bytes that are just being read."""
    _head_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, not forever."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._got_head()
        self._got_body()
        self._answer_is_read()
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
        self._wait_for_body(0)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._got_body()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read, not forever."""
        super().pause_writing()
        self._wait_for_reading()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._answer_is_read()
        super().resume_writing()

    def _wait_for_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _got_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _wait_for_body(self, least: int) -> None:
        """Drop the client unless the body is complete in time, or has `least` bytes by then."""
        self._got_body()
        self._body_timer = self.loop.call_later(BODY_SECONDS, self._check_body, least + LEAST_BODY)

    def _check_body(self, least: int) -> None:
        self._body_timer = None
        # While the application is busy with what came before, it is not the client that is slow.
        if self.flow.read_paused or self._body_bytes >= least:
            self._wait_for_body(self._body_bytes)
        elif self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        elif not self.transport.is_closing():
            self.send_400_response("The body of the request comes too slowly.")

    def _got_body(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _wait_for_reading(self) -> None:
        self._answer_is_read()
        unread = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self._check_reading, unread)

    def _check_reading(self, unread: int) -> None:
        # The application writes nothing while the client is behind, so the rest can only become less.
        if self.transport.get_write_buffer_size() >= unread:
            self.transport.abort()
        else:
            self._wait_for_reading()

    def _answer_is_read(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None
