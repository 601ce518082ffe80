"""`Idempotency-Key`: a request that is sent again, because its answer was lost, gets the first answer again.

The answers of each API key are kept in the memory of the server for a day, within bounds; the oldest go first. After a
restart they are gone: creating jobs and settling are safe to repeat without them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPResponseStartEvent, Message, Receive, Scope, Send

from longshore.clock import Clock
from longshore.media.http.wire import PROBLEM, Problem
from longshore.server.auth.access import Access

HEADER = b"idempotency-key"
REPLAYED = b"idempotency-replayed"
_LONGEST_KEY = 255
_KEPT_SECONDS = 24 * 3600.0
_MOST_ANSWERS, _MOST_BYTES, _LONGEST_ANSWER = 10_000, 64 * 1024 * 1024, 1024 * 1024


class _Answer:
    """The answer to one request; not yet there while the request is in flight."""

    def __init__(self, digest: bytes, at: float) -> None:
        self.digest = digest
        self.at = at
        self.start: HTTPResponseStartEvent | None = None
        self.body = b""
        self.too_large = False

    @property
    def is_there(self) -> bool:
        return self.start is not None


class KeptAnswers:
    """The kept answers of one server, by API key and idempotency key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, bytes], _Answer] = OrderedDict()
        self._bytes = 0

    def find(self, name: tuple[str, bytes]) -> _Answer | None:
        """Return the request with this name, if it is in flight or was answered within the last day."""
        while self._kept:
            oldest = next(iter(self._kept))
            old = self._clock.monotonic() - self._kept[oldest].at > _KEPT_SECONDS
            if not old and len(self._kept) <= _MOST_ANSWERS and self._bytes <= _MOST_BYTES:
                break
            self.drop(oldest)
        return self._kept.get(name)

    def begin(self, name: tuple[str, bytes], digest: bytes) -> _Answer:
        """Note that a request is in flight."""
        answer = self._kept[name] = _Answer(digest, self._clock.monotonic())
        return answer

    def keep(self, answer: _Answer, start: HTTPResponseStartEvent, body: bytes) -> None:
        """Keep the answer to a request."""
        answer.start = start
        answer.too_large = len(body) > _LONGEST_ANSWER
        if not answer.too_large:
            answer.body = body
            self._bytes += len(body)

    def drop(self, name: tuple[str, bytes]) -> None:
        """Forget a request: it may be sent again."""
        if (answer := self._kept.pop(name, None)) is not None:
            self._bytes -= len(answer.body)


class Idempotency:
    """An ASGI application around another one, inside of the authentication."""

    def __init__(self, app: ASGIApp, answers: KeptAnswers, body_bytes: int) -> None:
        """A body of more than `body_bytes` is refused."""
        self._app = app
        self._answers = answers
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, from memory if it was answered before."""
        access = scope.get("user")
        key = next((value for name, value in scope.get("headers", ()) if name.lower() == HEADER), None)
        reads = scope["type"] != ScopeType.HTTP or scope.get("method") in {"GET", "HEAD", "OPTIONS"}
        if key is None or reads or not isinstance(access, Access):
            await self._app(scope, receive, send)
            return
        if not 0 < len(key) <= _LONGEST_KEY:
            await _refuse(send, 422, f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.")
            return
        body = await _body(receive, self._body_bytes)
        if body is None:
            await _refuse(send, 413, "")
            return
        digest = hashlib.sha256(b"\0".join((scope["path"].encode(), scope.get("query_string", b""), body))).digest()
        name = (access.key.id, key)
        before = self._answers.find(name)
        if before is None:
            await self._first(scope, _again(body, receive), send, name, digest)
        elif before.digest != digest:
            await _refuse(send, 422, "This Idempotency-Key was used for another request. Make a new one for each.")
        elif not before.is_there:
            await _refuse(send, 409, "A request with this Idempotency-Key is in flight. Wait for its answer.")
        elif before.too_large or before.start is None:
            await _refuse(send, 409, "The request was carried out. Its answer was too large to be kept.")
        else:
            headers = [*before.start["headers"], (REPLAYED, b"true")]
            await send({"type": "http.response.start", "status": before.start["status"], "headers": headers})
            await send({"type": "http.response.body", "body": before.body, "more_body": False})

    async def _first(self, scope: Scope, receive: Receive, send: Send, name: tuple[str, bytes], digest: bytes) -> None:
        answer = self._answers.begin(name, digest)
        start: HTTPResponseStartEvent | None = None
        parts: list[bytes] = []

        async def kept(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                parts.append(message["body"])
                if not message["more_body"] and start is not None and start["status"] < 500:
                    self._answers.keep(answer, start, b"".join(parts))
            await send(message)

        try:
            await self._app(scope, receive, kept)
        finally:
            if not answer.is_there:
                # The server failed, or the client left: the request may be sent again.
                self._answers.drop(name)


async def _body(receive: Receive, most: int) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        parts.append(message["body"])
        size += len(message["body"])
        if size > most:
            return None
        if not message["more_body"]:
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was read already, and then all that comes after it."""
    read = False

    async def receive_again() -> HTTPReceiveMessage:
        nonlocal read
        if read:
            return await receive()  # type: ignore[return-value]
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


_TITLES = {409: "The request was sent before", 413: "The body is too large", 422: "The Idempotency-Key is not valid"}


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = msgspec.json.encode(Problem(title=_TITLES[status], status=status, detail=detail))
    headers = [(b"content-type", PROBLEM.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
