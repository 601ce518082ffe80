"""A request ready to be sent: the URL with its parameters, the body as bytes."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypedDict
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

import msgspec

from longshore.errors import ProcessingError, ValidationError
from longshore.scrape.http.public_suffixes import same_site
from longshore.scrape.http.response import Response
from longshore.url import clean_url, host_of, mask_url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Methods whose repetition has no further effect.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
# Headers that go along on a redirect to another origin. Any other one may hold a credential, under any name.
_HARMLESS = frozenset(
    {"accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "dnt", "pragma", "user-agent"}
    | {"content-type", "content-length", "content-encoding", "range", "if-modified-since", "if-none-match", "if-range"}
)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_LINE_END = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding"})

Value = str | int | float
Fields = Mapping[str, Value | Sequence[Value]]
"""Names, each with one value or several."""
File = bytes | str | tuple[str, bytes | str] | tuple[str, bytes | str, str]
"""The content of a file, or its name and content, or its name, content and media type."""


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
    jar: str
    """Cookies are kept in the jar of this name instead of the run's own; `jar=job.id` gives a job its own cookies."""
    digest_auth: tuple[str, str] | None
    """The user name and password for a site that asks for digest authentication. They go to this site only."""
    check: bool
    """Whether a status of 400 and above, or a block page, raises an error (the default) or is returned."""


class BodyOptions(Options, total=False):
    """The options of a request that may have a body."""

    data: bytes | str | Fields | None
    """The body, sent unchanged; a mapping is sent as a form."""
    json: object
    """The body, sent as JSON."""
    files: Mapping[str, File | Sequence[File]] | None
    """Files, by the name of their field, sent as multipart/form-data together with the fields of `data`."""


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
    jar: str = ""
    """The name of the cookie jar: the run of the job."""
    own: bool = False
    """Whether it goes to a host of the job itself, which may be on a private network."""
    cut_at: int | None = None
    """Read only this many bytes of the body; None reads all, and refuses a body that is larger than allowed."""

    @property
    def idempotent(self) -> bool:
        """Whether the request may be sent again if it is unknown whether it arrived."""
        return self.method in _IDEMPOTENT

    def to_own_host(self) -> Request:
        """Return the same request, with `own` set."""
        return Request(self.method, self.url, self.headers, self.body, self.jar, own=True, cut_at=self.cut_at)

    def redirected(self, answer: Response) -> Request | None:
        """Return the request that a redirect response asks for; None if the response is no redirect."""
        target = answer.headers.get("Location") if answer.status in REDIRECTS else None
        if not target:
            return None
        url = _target(self.url, target)
        method, body, dropped = self.method, self.body, frozenset[str]()
        if (answer.status == 303 and method != "HEAD") or (answer.status in (301, 302) and method == "POST"):
            method, body, dropped = "GET", None, _BODY_HEADERS
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        before, after = urlsplit(self.url), urlsplit(url)
        if after[:2] != before[:2]:
            headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
            if body is not None and not same_site(before.hostname or "", after.hostname or ""):
                raise ProcessingError(
                    f"{mask_url(self.url)} redirects to another site, {host_of(url)}, which would get the body of the "
                    "request. If it may, send the request there.",
                    retryable=False,
                )
        return Request(method, url, headers, body, self.jar, cut_at=self.cut_at)


def make_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    params: Fields | None = None,
    data: bytes | str | Fields | None = None,
    json: object = None,
    files: Mapping[str, File | Sequence[File]] | None = None,
    jar: str = "",
) -> Request:
    """Return the request for these options.

    Raise `ValidationError` for two bodies, a body that cannot be sent, and for a method or header that would begin
    another line of the request.
    """
    url = clean_url(url)
    if not _TOKEN.match(method):
        raise ValidationError(f"The method of a request cannot be {method[:40]!r}.")
    if headers:
        _check_headers(headers)
    if params:
        url = _with_query(url, params)
    body, kind = _body(data, json) if not files else _multipart(data, json, files)
    sent = headers or {}
    if kind and not any(name.lower() == "content-type" for name in sent):
        sent = {**sent, "Content-Type": kind}
    return Request(method.upper(), url, sent, body, jar)


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _TOKEN.match(name):
            raise ValidationError(f"A request cannot have a header named {name[:40]!r}.")
        if _LINE_END.search(str(value)):
            # Not shown: it may be a secret.
            raise ValidationError(f"The header {name} of a request has a line break or another control character.")


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


def _multipart(
    data: bytes | str | Fields | None, json: object, files: Mapping[str, File | Sequence[File]]
) -> tuple[bytes, str]:
    if json is not None or isinstance(data, bytes | str):
        raise ValidationError("A request with files has one body: give it data as a mapping, or none.")
    parts = []
    for name, values in (data or {}).items():
        several = [values] if isinstance(values, str | int | float) else values
        parts += [(f'form-data; name="{_quoted(name)}"', "", str(value).encode()) for value in several]
    for name, given in files.items():
        for file in [given] if isinstance(given, bytes | str | tuple) else given:
            title, content, *kind = (name, file) if isinstance(file, bytes | str) else file
            kind = kind or [mimetypes.guess_type(title)[0] or "application/octet-stream"]
            disposition = f'form-data; name="{_quoted(name)}"; filename="{_quoted(title)}"'
            parts.append(
                (disposition, _checked_kind(kind[0]), content.encode() if isinstance(content, str) else content)
            )
    # Made of the parts, so that the same request has the same bytes: caches and replays compare them.
    boundary = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
    lines = []
    for disposition, kind_of, content in parts:
        lines += [f"--{boundary}".encode(), f"Content-Disposition: {disposition}".encode()]
        lines += [f"Content-Type: {kind_of}".encode()] if kind_of else []
        lines += [b"", content]
    lines += [f"--{boundary}--".encode(), b""]
    return b"\r\n".join(lines), f"multipart/form-data; boundary={boundary}"


def _quoted(name: str) -> str:
    """Return a name as browsers send it in a multipart body."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _checked_kind(kind: str) -> str:
    if _LINE_END.search(kind):
        raise ValidationError("The media type of a file has a line break or another control character.")
    return kind


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
