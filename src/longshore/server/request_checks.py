"""Checks of every request before anything of it is read, and the headers of every answer.

Host: a page of another site may make its own name point to this machine (DNS rebinding). Then its requests carry that
name, so only addresses, `localhost` and the names that the owner gave are accepted.

Origin: a browser says with each request that changes something which page sent it; a page of another origin is refused.
Programs send neither header. Forms of our own pages, which come with a cookie, must have one of them.

Body: JSON only, as it is; of our own pages, plain forms only. Forms and plain text to the API, which a page of another
site could send unasked, and compressed bodies, which could grow without bound, are refused unread.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from longshore.media.http.wire import JSON, PROBLEM, Problem

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods of requests that only look."""
_SAME_SITE = frozenset({"same-origin", "none"})
_FORM = "application/x-www-form-urlencoded"
_ANSWER_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class RequestChecks:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        """`names` are the host names under which the server is reached, besides addresses and `localhost`."""
        self._app = app
        self._names = frozenset({"localhost", *(name.lower() for name in names)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [each for each in _ANSWER_HEADERS if each[0] not in own]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if (refusal := self._refusal(scope["method"], scope["path"], headers)) is None:
            await self._app(scope, receive, with_headers)
            return
        body = msgspec.json.encode(refusal)
        sent = [(b"content-type", PROBLEM.encode()), (b"content-length", str(len(body)).encode())]
        await with_headers({"type": "http.response.start", "status": refusal.status, "headers": sent})
        await with_headers({"type": "http.response.body", "body": body, "more_body": False})

    def _refusal(self, method: str, path: str, headers: dict[str, str]) -> Problem | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Problem(
                title="The request is for another host",
                status=400,
                detail="The Host header is not one of this server. Name the host with --allowed-host.",
            )
        if method in SAFE:
            return None
        if headers.get("sec-fetch-site", "none") not in _SAME_SITE or not _same_origin(headers.get("origin"), host):
            return Problem(title="A page of another origin may not do this", status=403)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_api(path):
            if not headers.keys() & {"sec-fetch-site", "origin"}:
                return Problem(title="A page of another origin may not do this", status=403)
            if kind != _FORM or "content-encoding" in headers:
                return Problem(title="The content type is not that of a form", status=415)
            return None
        if kind != JSON or "content-encoding" in headers:
            return Problem(
                title="The content type is not JSON",
                status=415,
                detail="Send the body as application/json, without a Content-Encoding.",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        name = _host_name(host)
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_api(path: str) -> bool:
    """Return whether a path is for programs, which send a key; all others belong to the web page."""
    return path in ("/api", "/metrics") or path.startswith("/api/")


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _same_origin(origin: str | None, host: str) -> bool:
    return origin is None or (origin.partition("://")[2].lower() == host.lower() and bool(host))
