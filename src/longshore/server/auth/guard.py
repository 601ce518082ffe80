"""Authentication: every route needs a key with its scope, unless the route says that it is open to all.

The API takes the key itself with each request, and no cookie: a page of another site could make a browser send that.
The pages take the cookie of a session.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException, TooManyRequestsException
from litestar.handlers import BaseRouteHandler
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult
from litestar.types import ASGIApp

from longshore.clock import Clock
from longshore.server.auth.access import Access
from longshore.server.auth.keys import ApiKey, Scope
from longshore.server.auth.sessions import COOKIE
from longshore.server.request_checks import SAFE, is_api
from longshore.server.served import Served

OPEN = "open_to_all"
"""The option of a route that needs no key."""
SCOPE = "scope"
"""The option of a route with the scopes of which its key needs one."""
WRITES = "writes"
"""The option of a route that says whether it writes. Without it, a GET does not, and every other request does."""
_MOST_FAILURES, _FAILURE_SECONDS = 20, 60.0
_MOST_ADDRESSES = 10_000


class FailedAttempts:
    """How often each address gave a wrong key. Beyond the limit its attempts are refused without a look at the key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[str, deque[float]] = {}

    def too_many(self, address: str) -> bool:
        """Return whether an address has used up its attempts of the last minute."""
        times = self._times.get(address)
        if times is None:
            return False
        while times and times[0] < self._clock.monotonic() - _FAILURE_SECONDS:
            times.popleft()
        if not times:
            del self._times[address]
        return len(times) >= _MOST_FAILURES

    def count(self, address: str) -> None:
        """Count a failed attempt."""
        if len(self._times) >= _MOST_ADDRESSES:
            self._times.pop(next(iter(self._times)))
        self._times.setdefault(address, deque(maxlen=_MOST_FAILURES)).append(self._clock.monotonic())


class KeyAuthentication(AbstractAuthenticationMiddleware):
    """Finds the key of a request; `request.user` is its `Access`."""

    def __init__(self, app: ASGIApp, served: Served, failed: FailedAttempts) -> None:
        super().__init__(app, exclude_from_auth_key=OPEN, exclude_http_methods=())
        self._served = served
        self._failed = failed

    async def authenticate_request(self, connection: ASGIConnection[Any, Any, Any, Any]) -> AuthenticationResult:
        """Return the access of the key. Raise an error for a response of 401 or 429."""
        if not is_api(connection.scope["path"]):
            session_key = self._served.sessions.key_of(connection.cookies.get(COOKIE, ""))
            if session_key is None:
                raise NotAuthorizedException("Log in.")
            return AuthenticationResult(user=self._access(session_key), auth=session_key)
        scheme, _, given = connection.headers.get("Authorization", "").partition(" ")
        if not given or scheme.lower() != "bearer":
            raise NotAuthorizedException("Send the header 'Authorization: Bearer KEY'.")
        key = self._served.keys.check(given.strip())
        if key is not None:
            return AuthenticationResult(user=self._access(key), auth=key)
        address = connection.client.host if connection.client else ""
        if self._failed.too_many(address):
            raise TooManyRequestsException("Wait a minute, then send a key that is valid.")
        self._failed.count(address)
        raise NotAuthorizedException("The key is not known, or was revoked. `longshore keys add` makes one.")

    def _access(self, key: ApiKey) -> Access:
        return Access(key, read_only=self._served.read_only)


async def needs_scope(connection: ASGIConnection[Any, Access, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse a key without a scope of the route, and a write if the server is read-only.

    A route without scopes is for admins.

    It is async although it waits for nothing: the framework would call a plain function in a thread, each time.
    """
    if handler.opt.get(OPEN):
        return
    scopes: tuple[Scope, ...] = handler.opt.get(SCOPE, (Scope.ADMIN,))
    if not any(map(connection.user.may, scopes)):
        raise PermissionDeniedException(f"The key lacks the scope {' or '.join(scopes)}.")
    if connection.user.read_only and handler.opt.get(WRITES, connection.scope.get("method") not in SAFE):
        raise PermissionDeniedException(
            "The server is read-only: jobs can be looked at and not changed. Its owner started it with --read-only."
        )
