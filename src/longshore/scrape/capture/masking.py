"""What is kept of a request, an answer or a job for people to look at, without its secrets.

Masked is what is named like a secret, wherever it stands: headers, parameters of URLs, fields of forms and of JSON,
entries of payloads; besides, the passwords of URLs, and, by their looks, JSON Web Tokens and some kinds of keys. The
body of an answer is the page itself and stays as it is.
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
# A field of a form in parts: its head, and the value up to the next part.
_PART = re.compile(rb'(?P<head>\bname="(?P<name>[^"]+)"[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n).*?(?=\r\n--)', re.DOTALL)
_SECRET_HEADER = re.compile(r"(?:key|session|cookie2)\Z", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a header, parameter, field or setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None or name.lower() in _SECRET_HEADERS


def mask_address(url: str) -> str:
    """A URL without its secrets. Masking what is masked changes nothing."""
    masked = mask_url(url)
    if "?" in masked:
        masked = _IN_QUERY.sub(_parameter, masked)
    return _JWT.sub(MASK, masked) if "eyJ" in masked else masked


def _parameter(found: re.Match[str]) -> str:
    return f"{found['name']}={MASK}" if is_secret(found["name"]) else found[0]


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without what they prove: the names stay, so that one sees what was sent."""
    return {name: MASK if _is_secret_header(name) else mask_text(str(value)) for name, value in headers.items()}


def _is_secret_header(name: str) -> bool:
    return is_secret(name) or _SECRET_HEADER.search(name) is not None


def mask_text(text: str) -> str:
    """Any text (a message, a traceback) without the secrets of its URLs and what is written as `password=…` in it."""
    if "://" in text:
        text = mask_urls(text)
    text = _NAMED.sub(lambda found: f"{found['name']}{found['quote']}{found['scheme'] or ''}{MASK}", text)
    text = TOKEN.sub(MASK, _COOKIE.sub(lambda found: f"{found['name']}{MASK}", text))
    return _JWT.sub(MASK, text) if "eyJ" in text else text


def mask_value(value: Any) -> Any:
    """A value such as a payload, with every secret in it replaced, however deep."""
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
    """What was sent with a request, its secret fields replaced: of a form, or of JSON. Anything else is text, or binary
    and stays as it is."""
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
    """An exchange as it may be kept."""
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
