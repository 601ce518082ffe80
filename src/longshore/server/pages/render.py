"""Rendering: templates that escape everything, and answers whose content security policy allows only our files."""

from __future__ import annotations

import gzip
import secrets
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Response
from litestar.datastructures import Cookie

from longshore.observe.statistics import about
from longshore.runs.control.pause import EVERYTHING
from longshore.server.api.request import ApiCall
from longshore.server.auth.access import Access
from longshore.server.auth.keys import Scope
from longshore.server.pages import addresses, words
from longshore.server.pages.assets import ASSETS
from longshore.server.pages.us_states import state_name
from longshore.ui.words import counted, duration, one_line, rate, reason_counts, size_words

HTML = "text/html; charset=utf-8"
_SMALL = 1000
"""Bytes below which compressing is not worth it."""


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "rate": rate,
        "host_rate": words.host_rate,
        "duration": duration,
        "about": about,
        "time": words.time_tag,
        "web_link": words.web_link,
        "json_text": words.json_text,
        "one_line": one_line,
        "size": size_words,
        "run_name": addresses.run_name,
        "reason_counts": reason_counts,
    }
    made.globals |= {
        "asset": ASSETS.address,
        "address": addresses.address,
        "run_address": addresses.run_address,
        "job_address": addresses.job_address,
        "jobs_address": addresses.jobs_address,
        "counted": counted,
        "share": words.share,
        "percent": words.percent,
        "failure_title": words.failure_title,
        "EVERYTHING": EVERYTHING,
        "state_name": state_name,
        "can_drain": True,
    }
    made.globals["m"] = made.get_template("macros.html").module
    return made


TEMPLATES = _environment()


class Rights:
    """The rights of the person at the page, as the templates ask for them."""

    def __init__(self, access: Access | None) -> None:
        self.name = "" if access is None else access.key.name
        self.read_only = access is not None and access.read_only
        self.submit = access is not None and not access.read_only and access.may(Scope.SUBMIT)
        self.admin = access is not None and not access.read_only and access.may(Scope.ADMIN)
        self.limited = access is not None and access.is_limited


def part(name: str, context: dict[str, Any]) -> str:
    """Return a part of a page: `name` is that of its template in `parts`."""
    return TEMPLATES.get_template(f"parts/{name}.html").render(context)


def respond(
    request: ApiCall,
    template: str,
    context: dict[str, Any],
    *,
    status: int = 200,
    cookies: list[Cookie] | None = None,
    extra_headers: dict[str, str] | None = None,
) -> Response[bytes]:
    """Return a page."""
    nonce = secrets.token_urlsafe(16)
    access = request.scope.get("user")
    context = {
        "rights": Rights(access),
        "nonce": nonce,
        "path": request.url.path,
        "asks_part": is_part(request),
    } | context
    body = TEMPLATES.get_template(template).render(context).encode("utf-8", "replace")
    headers = {"Content-Security-Policy": policy(nonce), "Referrer-Policy": "same-origin", "Vary": "Accept-Encoding"}
    headers |= extra_headers or {}
    if len(body) > _SMALL and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = gzip.compress(body, 5, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=HTML, status_code=status, headers=headers, cookies=cookies)


def is_part(request: ApiCall) -> bool:
    """Return whether the page's own script asks, and wants only the inner part."""
    return request.headers.get("HX-Request") == "true"


def policy(nonce: str) -> str:
    """Return the content security policy of a page: our own files and nothing else, scripts only with the nonce."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
