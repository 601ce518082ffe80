"""Errors as pages: the same statuses as those of the API, in words. Without a session, the login form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.response import Redirect

from longshore.media.http.wire import Problem
from longshore.server.pages.addresses import address
from longshore.server.pages.render import is_part, respond
from longshore.server.request_checks import is_api

Handler = Callable[[Request[Any, Any, Any], Any], Response[Any]]


def by_face(problem: Handler) -> Handler:
    """Return the handler that answers programs as `problem` does, and people with a page that says the same."""

    def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        found = problem(request, error)
        if is_api(request.url.path) or "text/html" not in request.headers.get("Accept", ""):
            return found
        if found.status_code == 401 and request.method == "GET" and not is_part(request):
            asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return Redirect(address("/login", next="" if asked == "/" else asked), status_code=303)
        told = msgspec.json.decode(found.content, type=Problem)
        context = {"title": told.title, "detail": told.detail}
        return respond(request, "error.html", context, status=found.status_code or 500)

    return answer
