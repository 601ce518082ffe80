"""The stream of a live page: server-sent events with the parts that changed.

A viewer that does not read is dropped, so that it holds no memory. A stream ends when its session does, and when the
server stops.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from html import escape
from typing import Any

import structlog
from litestar import Request, asgi
from litestar.types import HTTPSendMessage, Receive, Scope, Send

from longshore.errors import UsageError
from longshore.server.api.request import gone
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope as KeyScope
from longshore.server.auth.sessions import COOKIE
from longshore.server.live.live_reader import LiveReader
from longshore.server.pages.addresses import address, run_name, run_of
from longshore.server.pages.views import PARTS, LiveView, LiveViews, ViewName
from longshore.server.served import Served

MOST_STREAMS = 2000
SLOW_SECONDS = 15.0
"""A viewer that takes longer to read what was sent is dropped."""
_ALIVE_SECONDS = 15.0
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
log = structlog.get_logger()
READ = {SCOPE: (KeyScope.READ, KeyScope.WORK)}


def stream_address(name: ViewName, life: str, number: int) -> str:
    """Return the address of the stream for a page that was made from the snapshot `number`."""
    run = None if name.run is None else run_name(name.run)
    page = "" if name.number == 1 else name.number
    return address("/live", page=name.page, run=run, job=name.job, q=name.text, number=page, seen=f"{life}.{number}")


class LiveStreams:
    """All streams of a server."""

    def __init__(self, served: Served, reader: LiveReader, views: LiveViews) -> None:
        self._served = served
        self._reader = reader
        self._views = views
        self.open = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of a viewer: send events until one side ends it."""
        request: Request[Access, Any, Any] = Request(scope, receive)
        name, seen = _asked(request, self._reader.life)
        if self.open >= MOST_STREAMS:
            raise UsageError("Too many people are watching. Reload the page to see the figures of now.")
        view, leave = self._views.take(name, request.user)
        self.open += 1
        try:
            await self._send_events(request, view, seen, _Sender(send))
        except _SlowViewerError:
            log.info("A viewer of the page read too slowly and was dropped")
        finally:
            self.open -= 1
            leave()

    async def _send_events(
        self, request: Request[Access, Any, Any], view: LiveView, seen: int, sender: _Sender
    ) -> None:
        served, token = self._served, request.cookies.get(COOKIE, "")
        await sender.begin()
        with self._reader.watching(view.topic) as woken:
            ended = asyncio.create_task(_ended(request, served, woken))
            try:
                sent_at = served.clock.monotonic()
                while not ended.done() and served.sessions.key_of(token) is not None:
                    if view.topic.gone:
                        await sender.send(b"event: gone\ndata: \n\n")
                        break
                    number, parts = view.changed_since(seen)
                    silent = served.clock.monotonic() - sent_at
                    if parts or silent > _ALIVE_SECONDS:
                        await sender.send(_event(f"{self._reader.life}.{number}", parts) if parts else b": alive\n\n")
                        sent_at = served.clock.monotonic()
                    seen = number
                    await woken.wait()
                    woken.clear()
                else:
                    if not ended.done():
                        await sender.send(b"event: ended\ndata: \n\n")
                await sender.end()
            finally:
                ended.cancel()
                with suppress(asyncio.CancelledError):
                    await ended


class _SlowViewerError(Exception):
    """The viewer does not read."""


class _Sender:
    def __init__(self, send: Send) -> None:
        self._send = send

    async def begin(self) -> None:
        await self._in_time({"type": "http.response.start", "status": 200, "headers": _HEADERS})

    async def send(self, body: bytes) -> None:
        await self._in_time({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        await self._in_time({"type": "http.response.body", "body": b"", "more_body": False})

    async def _in_time(self, message: HTTPSendMessage) -> None:
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await self._send(message)
        except TimeoutError as error:
            raise _SlowViewerError from error


async def _ended(request: Request[Access, Any, Any], served: Served, woken: asyncio.Event) -> None:
    """Return when the viewer left or the server stops, and wake the stream."""
    await gone(request, served)
    woken.set()


def _asked(request: Request[Access, Any, Any], life: str) -> tuple[ViewName, int]:
    query = request.query_params
    page = query.get("page", "")
    if page not in PARTS:
        raise UsageError("There is no such live page.")
    run, job = query.get("run"), query.get("job")
    if (page == "run") != (run is not None) or (page == "job") != (job is not None):
        raise UsageError("The page of a run needs the run, the page of a job its id.")
    number = query.get("number", "1")
    name = ViewName(
        page=page,
        run=None if run is None else run_of(run),
        job=job,
        text=query.get("q", ""),
        number=int(number) if number.isdecimal() and len(number) < 9 else 1,
    )
    # The header is newer: it comes from an event, when the connection was lost and made again.
    of_life, _, seen = (request.headers.get("Last-Event-ID") or query.get("seen") or "").partition(".")
    known = of_life == life and seen.isdecimal() and len(seen) < 16
    return name, int(seen) if known else 0


def _event(number: str, parts: dict[str, str]) -> bytes:
    """Return one event that replaces the content of each part's element; elements that stay the same are kept."""
    html = "".join(
        f'<hx-partial hx-target="#{escape(name)}" hx-swap="innerMorph">{html}</hx-partial>'
        for name, html in parts.items()
    )
    lines = "".join(f"data: {line}\n" for line in html.replace("\r", "").split("\n"))
    return f"id: {number}\n{lines}\n".encode("utf-8", "replace")


def live_route(streams: LiveStreams) -> Any:
    """Return the route of the streams."""

    @asgi("/live", opt=READ, copy_scope=False)
    async def live(scope: Scope, receive: Receive, send: Send) -> None:
        await streams.answer(scope, receive, send)

    return live
