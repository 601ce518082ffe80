"""Login and logout: a key, or the one-time code of the login link, is exchanged for a session cookie."""

from __future__ import annotations

from typing import TypeAlias

from litestar import Controller, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import FromQuery
from litestar.response import Redirect

from longshore.server.api.request import ApiCall, ServedQueue, form_of
from longshore.server.auth.guard import OPEN, FailedAttempts
from longshore.server.auth.keys import ApiKey, Scope
from longshore.server.auth.sessions import COOKIE, SESSION_SECONDS
from longshore.server.pages.addresses import local_path
from longshore.server.pages.render import respond
from longshore.server.served import Served

_OPEN = {OPEN: True}
_USED_UP = "This login link was used, or is too old. Paste a key, or start the server again."


Failures: TypeAlias = NamedDependency[FailedAttempts]


class LoginRoutes(Controller):
    """The routes to begin and end a session."""

    include_in_schema = False

    @get("/login", opt=_OPEN)
    async def show(
        self,
        request: ApiCall,
        served: ServedQueue,
        failed: Failures,
        code: FromQuery[str] = "",
        next: FromQuery[str] = "/",  # noqa: A002  the name in the address
    ) -> Response[bytes]:
        """Return the form for a key; with the code of a login link, begin a session."""
        if not code:
            return _form(request, next)
        if failed.too_many(_address(request)):
            return _form(request, next, "Too many failed attempts. Wait a minute.", 429)
        if (key := served.sessions.use_code(code)) is not None:
            return _begun(request, served, key, next)
        failed.count(_address(request))
        return _form(request, next, _USED_UP, 401)

    @post("/login", opt=_OPEN)
    async def log_in(self, request: ApiCall, served: ServedQueue, failed: Failures) -> Response[bytes]:
        """Begin a session with a key."""
        fields = dict(await form_of(request))
        then = fields.get("next", "/")
        if failed.too_many(_address(request)):
            return _form(request, then, "Too many failed attempts. Wait a minute.", 429)
        key = served.keys.check(fields.get("key", "").strip())
        if key is None:
            failed.count(_address(request))
            return _form(request, then, "The key is not known, or was revoked.", 401)
        return _begun(request, served, key, then)

    @post("/logout", opt=_OPEN)
    async def log_out(self, request: ApiCall, served: ServedQueue) -> Response[None]:
        """End the session."""
        served.sessions.end(request.cookies.get(COOKIE, ""))
        return Redirect("/login", status_code=303, cookies=[_cookie(request, "", 0)])


def _begun(request: ApiCall, served: Served, key: ApiKey, then: str) -> Response[bytes]:
    if not (key.may(Scope.READ) or key.may(Scope.WORK)):
        return _form(request, then, "This key may not look at jobs: it needs the scope read, work or admin.", 403)
    token = served.sessions.begin(key)
    # A page that leads on, and no redirect: after a link from another site, a browser would not send the cookie yet.
    cookies = [_cookie(request, token, int(SESSION_SECONDS))]
    return respond(request, "logged_in.html", {"next": local_path(then), "name": key.name}, cookies=cookies)


def _form(request: ApiCall, then: str, fault: str = "", status: int = 200) -> Response[bytes]:
    return respond(request, "login.html", {"next": local_path(then), "fault": fault}, status=status)


def _cookie(request: ApiCall, token: str, seconds: int) -> Cookie:
    # The header may be a reverse proxy's, which ends TLS. Someone who forges it only restricts their own cookie.
    secure = "https" in (request.url.scheme, request.headers.get("X-Forwarded-Proto", ""))
    return Cookie(COOKIE, value=token, path="/", max_age=seconds, httponly=True, samesite="strict", secure=secure)


def _address(request: ApiCall) -> str:
    return request.client.host if request.client else ""
