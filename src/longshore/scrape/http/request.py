"""A request, made ready to be sent: the URL with its parameters, the body as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypedDict
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

import msgspec

from longshore.errors import ProcessingError, ValidationError
from longshore.scrape.http.response import Response
from longshore.url import mask_url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Asked twice, they do what they do once.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
# Meant for the one they were given to.
_PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_THE_BODY = frozenset({"content-type", "content-length", "content-encoding"})

Value = str | int | float
Fields = Mapping[str, Value | Sequence[Value]]
"""Names with a value, or with several."""


class Options(TypedDict, total=False):
    """What may be said with any request."""

    headers: Mapping[str, str] | None
    """Sent beside our own, and in their place where the name is the same."""
    params: Fields | None
    """Added to the query of the URL."""
    timeout: float | timedelta | None
    """Seconds for each try, in place of the usual `timeout`."""
    proxy: str | None
    """The URL of the proxy to go through, in place of the pool's choice."""
    session: str
    """What a sticky pool sticks to: requests of one session go through one proxy."""
    check: bool
    """Whether an answer of 400 and above is an error (it is), or an answer like any other."""


class BodyOptions(Options, total=False):
    """What may be said with a request that has a body."""

    data: bytes | str | Fields | None
    """The body as it is; a mapping is sent as a form."""
    json: object
    """The body, sent as JSON."""


def check_options(options: BodyOptions) -> None:
    """`ValidationError` for an option that there is not: `chek=False` would else be the same as nothing."""
    known = BodyOptions.__optional_keys__
    if unknown := options.keys() - known:
        raise ValidationError(
            f"A request takes no {', '.join(sorted(unknown))}. It takes: {', '.join(sorted(known))}.",
        )


class Request(msgspec.Struct, frozen=True):
    """What is sent."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    """Beside those that every request has."""
    body: bytes | None = None

    @property
    def idempotent(self) -> bool:
        """Whether it may be sent again when nobody knows if it arrived."""
        return self.method in _IDEMPOTENT

    def redirected(self, answer: Response) -> Request | None:
        """What an answer asks to be sent in place of this; None where it does not."""
        target = answer.headers.get("Location") if answer.status in REDIRECTS else None
        if not target:
            return None
        url = _target(self.url, target)
        method, body, dropped = self.method, self.body, frozenset[str]()
        if (answer.status == 303 and method != "HEAD") or (answer.status in (301, 302) and method == "POST"):
            method, body, dropped = "GET", None, _OF_THE_BODY
        if urlsplit(url)[:2] != urlsplit(self.url)[:2]:
            dropped |= _PRIVATE
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
    """The request that these describe. `ValidationError` where two of them disagree, or cannot be sent."""
    if params:
        url = _with_query(url, params)
    body, kind = _body(data, json)
    sent = headers or {}
    if kind and not any(name.lower() == "content-type" for name in sent):
        sent = {**sent, "Content-Type": kind}
    return Request(method.upper(), url, sent, body)


def _with_query(url: str, params: Fields) -> str:
    bare, fragment = urldefrag(url)
    joint = "" if bare.endswith(("?", "&")) else "&" if "?" in bare else "?"
    return f"{bare}{joint}{urlencode(params, doseq=True)}" + (f"#{fragment}" if fragment else "")


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
        target, _ = urldefrag(urljoin(url, location))
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return target
    except ValueError:
        pass
    # Where it leads may hold a secret, and is no URL that could be masked.
    raise ProcessingError(f"{mask_url(url)} redirects to what is not a URL", retryable=False)
