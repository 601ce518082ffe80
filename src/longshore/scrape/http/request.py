"""A request ready to be sent: the URL with its parameters, the body as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypedDict
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

import msgspec

from longshore.errors import ProcessingError, ValidationError
from longshore.scrape.http.response import Response
from longshore.url import clean_url, mask_url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Methods whose repetition has no further effect.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
# Headers with credentials: dropped on a redirect to another site.
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding"})

Value = str | int | float
Fields = Mapping[str, Value | Sequence[Value]]
"""Names, each with one value or several."""


class Options(TypedDict, total=False):
    """The options of any request."""

    headers: Mapping[str, str] | None
    """Sent in addition to our own headers; a header with the same name replaces ours."""
    params: Fields | None
    """Added to the query of the URL."""
    timeout: float | timedelta | None
    """Seconds for each try, instead of the client's `timeout`."""
    proxy: str | None
    """The URL of the proxy to use, instead of the pool's choice."""
    session: str
    """With a sticky pool, all requests of one session go through the same proxy."""
    check: bool
    """Whether a status of 400 and above raises `StatusError` (the default) or is returned."""


class BodyOptions(Options, total=False):
    """The options of a request that may have a body."""

    data: bytes | str | Fields | None
    """The body, sent unchanged; a mapping is sent as a form."""
    json: object
    """The body, sent as JSON."""


def check_options(options: BodyOptions) -> None:
    """Raise `ValidationError` for an unknown option: a misspelled one would have no effect."""
    known = BodyOptions.__optional_keys__
    if unknown := options.keys() - known:
        raise ValidationError(
            f"A request takes no {', '.join(sorted(unknown))}. It takes: {', '.join(sorted(known))}.",
        )


class Request(msgspec.Struct, frozen=True):
    """One HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    """In addition to the headers that the transport sends with every request."""
    body: bytes | None = None
    own: bool = False
    """Whether it goes to a host of the job itself, which may be on a private network."""

    @property
    def idempotent(self) -> bool:
        """Whether the request may be sent again if it is unknown whether it arrived."""
        return self.method in _IDEMPOTENT

    def redirected(self, answer: Response) -> Request | None:
        """Return the request that a redirect response asks for; None if the response is no redirect."""
        target = answer.headers.get("Location") if answer.status in REDIRECTS else None
        if not target:
            return None
        url = _target(self.url, target)
        method, body, dropped = self.method, self.body, frozenset[str]()
        if (answer.status == 303 and method != "HEAD") or (answer.status in (301, 302) and method == "POST"):
            method, body, dropped = "GET", None, _BODY_HEADERS
        if urlsplit(url)[:2] != urlsplit(self.url)[:2]:
            dropped |= _CREDENTIALS
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        return Request(method, url, headers, body)


def make_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    params: Fields | None = None,
    data: bytes | str | Fields | None = None,
    json: object = None,
) -> Request:
    """Return the request for these options. Raise `ValidationError` for two bodies or a body that cannot be sent."""
    url = clean_url(url)
    if params:
        url = _with_query(url, params)
    body, kind = _body(data, json)
    sent = headers or {}
    if kind and not any(name.lower() == "content-type" for name in sent):
        sent = {**sent, "Content-Type": kind}
    return Request(method.upper(), url, sent, body)


def _with_query(url: str, params: Fields) -> str:
    bare, fragment = urldefrag(url)
    separator = "" if bare.endswith(("?", "&")) else "&" if "?" in bare else "?"
    return f"{bare}{separator}{urlencode(params, doseq=True)}" + (f"#{fragment}" if fragment else "")


def _body(data: bytes | str | Fields | None, json: object) -> tuple[bytes | None, str]:
    if json is not None:
        if data is not None:
            raise ValidationError("A request has one body: give it data or json, not both.")
        try:
            return msgspec.json.encode(json), "application/json"
        except (TypeError, ValueError) as error:
            raise ValidationError(f"The body of the request cannot be sent as JSON: {error}") from error
    match data:
        case None | bytes():
            return data, ""
        case str():
            return data.encode(), ""
        case _:
            return urlencode(data, doseq=True).encode(), "application/x-www-form-urlencoded"


def _target(url: str, location: str) -> str:
    try:
        target, _ = urldefrag(urljoin(url, clean_url(location)))
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return target
    except ValueError:
        pass
    # Do not show the target: it may hold a secret, and only valid URLs can be masked.
    raise ProcessingError(f"{mask_url(url)} redirects to an invalid URL", retryable=False)
