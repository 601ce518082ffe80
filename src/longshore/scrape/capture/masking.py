"""Mask secrets in captured data: requests, responses and jobs that are stored on disk for people to read.

`longshore.masking` has the names and forms of secrets; this module knows headers, forms, JSON bodies and exchanges. A
response body is the page itself and is not masked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import msgspec

from longshore.extensions.traces import StoredPage
from longshore.masking import MASK, is_secret, mask_address, mask_text, mask_value
from longshore.scrape.capture.exchange import Exchange

_FIELD_NAME = re.compile(rb'\bname="([^"]+)"')
_SECRET_HEADER = re.compile(r"(?:key|session|cookie2)\Z", re.IGNORECASE)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with secret values masked. The names stay, to show what was sent."""
    return {name: MASK if _is_secret_header(name) else mask_text(str(value)) for name, value in headers.items()}


def _is_secret_header(name: str) -> bool:
    return is_secret(name) or _SECRET_HEADER.search(name) is not None


def mask_body(body: bytes) -> bytes:
    """Return a request body with its secrets masked: fields of a form or JSON, and values in other text.

    A binary body is returned unchanged.
    """
    if not body:
        return body
    if body.startswith(b"--"):
        body = _mask_parts(body)
    try:
        return msgspec.json.encode(mask_value(msgspec.json.decode(body)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    if "=" in text and not re.search(r"\s", text):
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode([(name, MASK if is_secret(name) else value) for name, value in pairs]).encode()
    return mask_text(text).encode()


def _mask_parts(body: bytes) -> bytes:
    """Return a multipart form with the values of its secret fields masked."""
    boundary = b"\r\n" + body.partition(b"\r\n")[0]
    parts = body.split(boundary)
    for number, part in enumerate(parts):
        head, empty, _ = part.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head) if empty else None
        if name is not None and is_secret(name[1].decode(errors="replace")):
            parts[number] = head + empty + MASK.encode()
    return boundary.join(parts)


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


def mask_page(page: StoredPage) -> StoredPage:
    """Return the entry of a stored page with its secrets masked."""
    return msgspec.structs.replace(
        page,
        url=mask_address(page.url),
        final_url=mask_address(page.final_url),
        headers=mask_headers(page.headers),
        identity=mask_address(page.identity),
    )
