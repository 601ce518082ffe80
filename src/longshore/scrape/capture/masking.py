"""Mask secrets in captured data: requests, responses and jobs that are stored on disk for people to read.

Values with the name of a secret are masked in headers, URL parameters, form fields, JSON fields and payloads; passwords
in URLs, JSON Web Tokens and some kinds of keys are masked by their form. A response body is the page itself and is not
masked.

`observe/masking.py` masks log lines, with fewer names and rules. Captured HTTP data holds cookies, session ids, CSRF
tokens and signatures, so the rules here are wider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from longshore.scrape.capture.exchange import Exchange
from longshore.url import TOKEN, mask_url, mask_urls

MASK = "***"

_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|jwt|auth|authorization|credentials?|[a-z]*sess(?:ion)?id|sid|csrf|xsrf|signature|sig|"
    r"api[_-]?key|access[_-]?key|private[_-]?key|session[_-]?(?:id|key)|client[_-]?secret"
)
# A whole word of the name: `db_password`, `X-Api-Key` and `accessToken` are secrets; `tokens`, a count, is not.
_SECRET_NAME = re.compile(rf"(?:^|[_\-. \[]|(?<=[a-z])(?=[A-Z]))(?i:{_WORDS})(?:$|[_\-. \]]|(?<=[a-z])(?=[A-Z]))")
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "www-authenticate", "proxy-authenticate"}
)
_JWT = re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*")
_IN_QUERY = re.compile(r"(?<=[?&])(?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_NAMED = re.compile(
    rf"(?P<name>(?<![a-z0-9])(?:{_WORDS})[\"']?\s*[=:]\s*)(?P<quote>[\"']?)(?P<scheme>(?:bearer|basic|token)\s+)?"
    r"(?:(?<=[\"'])[^\n\"']+|[^\s\"'&,;)}\]]+)",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"(?P<name>(?<![\w-])(?:set-)?cookie[\"']?: *[\"']?)[^\r\n\"']+", re.IGNORECASE)
# A field of a multipart form: its head, and the value up to the next part.
_PART = re.compile(rb'(?P<head>\bname="(?P<name>[^"]+)"[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n).*?(?=\r\n--)', re.DOTALL)
_SECRET_HEADER = re.compile(r"(?:key|session|cookie2)\Z", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a header, parameter, field or setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None or name.lower() in _SECRET_HEADERS


def mask_address(url: str) -> str:
    """Return a URL with its secrets masked. Masking twice changes nothing."""
    masked = mask_url(url)
    if "?" in masked:
        masked = _IN_QUERY.sub(_parameter, masked)
    return _JWT.sub(MASK, masked) if "eyJ" in masked else masked


def _parameter(found: re.Match[str]) -> str:
    return f"{found['name']}={MASK}" if is_secret(found["name"]) else found[0]


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with secret values masked. The names stay, to show what was sent."""
    return {name: MASK if _is_secret_header(name) else mask_text(str(value)) for name, value in headers.items()}


def _is_secret_header(name: str) -> bool:
    return is_secret(name) or _SECRET_HEADER.search(name) is not None


def mask_text(text: str) -> str:
    """Return a text (a message, a traceback) with the secrets of its URLs and values such as `password=…` masked."""
    if "://" in text:
        text = mask_urls(text)
    text = _NAMED.sub(lambda found: f"{found['name']}{found['quote']}{found['scheme'] or ''}{MASK}", text)
    text = TOKEN.sub(MASK, _COOKIE.sub(lambda found: f"{found['name']}{MASK}", text))
    return _JWT.sub(MASK, text) if "eyJ" in text else text


def mask_value(value: Any) -> Any:
    """Return a value such as a payload with every secret in it masked, at any depth."""
    match value:
        case str():
            return mask_address(value) if value.startswith(("http://", "https://")) else mask_text(value)
        case dict():
            return {name: MASK if item and is_secret(str(name)) else mask_value(item) for name, item in value.items()}
        case list() | tuple():
            return [mask_value(item) for item in value]
        case _:
            return value


def mask_body(body: bytes) -> bytes:
    """Return a request body with its secrets masked: fields of a form or JSON, and values in other text.

    A binary body is returned unchanged.
    """
    if not body:
        return body
    if body.startswith(b"--"):
        body = _PART.sub(_masked_part, body)
    try:
        return msgspec.json.encode(mask_value(msgspec.json.decode(body)))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    if "=" in text and not re.search(r"\s", text):
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode([(name, MASK if is_secret(name) else value) for name, value in pairs]).encode()
    return mask_text(text).encode()


def _masked_part(found: re.Match[bytes]) -> bytes:
    return found["head"] + MASK.encode() if is_secret(found["name"].decode(errors="replace")) else found[0]


def mask_exchange(exchange: Exchange) -> Exchange:
    """Return an exchange with its secrets masked, ready to be stored."""
    return msgspec.structs.replace(
        exchange,
        url=mask_address(exchange.url),
        final_url=mask_address(exchange.final_url),
        request_headers=mask_headers(exchange.request_headers),
        request_body=mask_body(exchange.request_body),
        headers=mask_headers(exchange.headers),
        error=mask_text(exchange.error),
        identity=mask_address(exchange.identity),
    )
