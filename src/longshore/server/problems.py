"""Errors as `application/problem+json`: a stable code, the cause and the fix, and nothing secret."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from longshore.errors import (
    LongshoreError,
    NotFoundError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    UsageError,
)
from longshore.media.http.wire import PROBLEM, Problem
from longshore.server.auth.leases import LostLeaseError
from longshore.server.kind_checks import InvalidPayloadsError
from longshore.url import mask_urls

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of a body that is not JSON."""
log = structlog.get_logger()


class WrongStateError(UsageError):
    """A job is in a state in which the operation cannot change it."""


_STATUS: tuple[tuple[type[LongshoreError], int, str], ...] = (
    (LostLeaseError, 409, "The lease is lost"),
    (WrongStateError, 409, "The job is in another state"),
    (NotFoundError, 404, "Not found"),
    (UsageError, 422, "The request cannot be carried out"),
    (QueueUnavailableError, 503, "The queue does not answer now"),
    (ReadOnlyQueueError, 503, "The queue cannot be written to"),
    (QueueFullError, 507, "The disk under the queue is full"),
    (QueueError, 500, "The queue failed"),
    (LongshoreError, 500, "The server failed"),
)
_TITLES = {
    400: "The request cannot be read",
    401: "A key is needed",
    403: "The key does not allow this",
    404: "Not found",
    405: "The method is not allowed here",
    410: "The worker is asked to end",
    413: "The body is too large",
    415: "The content type is not JSON",
    429: "Too many failed attempts",
}


def problem_response(
    status: int, detail: str = "", *, code: str = "", errors: list[str] | None = None, title: str = ""
) -> Response[bytes]:
    """Return an error as a response."""
    title = title or _TITLES.get(status, "The server failed" if status >= 500 else "The request is wrong")
    problem = Problem(title=title, status=status, detail=detail, code=code, errors=errors or [])
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Response(msgspec.json.encode(problem), status_code=status, media_type=PROBLEM, headers=headers)


def on_longshore_error(request: Request[Any, Any, Any], error: LongshoreError) -> Response[bytes]:
    """Return the response to an error of ours."""
    del request
    status, title = next((status, title) for kind, status, title in _STATUS if isinstance(error, kind))
    faults = error.faults if isinstance(error, InvalidPayloadsError) else None
    return problem_response(status, mask_urls(str(error)), code=type(error).__name__, errors=faults, title=title)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Return the response to a request that no route could take."""
    del request
    faults = [f"{each.get('key', '')}: {each.get('message', '')}".lstrip(": ") for each in _extra(error)]
    detail = error.detail if not faults else "; ".join(faults)
    status = 422 if error.status_code == 400 and faults else error.status_code
    return problem_response(status, detail[:2000], errors=[fault[:500] for fault in faults][:100])


def on_unreadable(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the response to a body that is not JSON, or not the JSON that the route takes."""
    del request
    if isinstance(error, msgspec.ValidationError):
        return problem_response(422, str(error)[:2000], errors=[str(error)[:500]], title="The body is not valid")
    reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
    return problem_response(400, f"The body is not JSON: {reason}"[:2000])


def on_any_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the response to a defect. The cause is in the log of the server, and not in the response."""
    log.error("A request failed", method=request.method, path=request.url.path, exc_info=error)
    return problem_response(500, "The log of the server has the cause.")


def _extra(error: HTTPException) -> list[dict[str, Any]]:
    extra = error.extra
    return [each for each in extra if isinstance(each, dict)] if isinstance(extra, list) else []
