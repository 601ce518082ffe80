"""An exchange: one request and its response, as it was seen and as a failure bundle has it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.extensions.traces import ExchangeKind


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its response. Nothing is masked here: mask an exchange before you show or store it."""

    method: str = "GET"
    url: str
    """The requested URL."""
    final_url: str = ""
    """The URL that answered, after redirects."""
    request_headers: Mapping[str, str] = {}
    request_body: bytes = b""
    status: int | None = None
    """None without a response; then `error` has the reason."""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    error: str = ""
    at: float = 0.0
    """When the request was sent, in seconds since 1970."""
    seconds: float = 0.0
    identity: str = ""
    """The proxy or circuit used, without its password; empty for the machine's own address."""
    cached: bool = False
    """Whether the response came from the cache."""
    kind: ExchangeKind = ExchangeKind.HTTP


class BundledExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange as stored in a bundle."""

    method: str
    url: str
    final_url: str = ""
    request_headers: dict[str, str] = {}
    request_body: str = ""
    status: int | None = None
    headers: dict[str, str] = {}
    file: str = ""
    """The file with the response body."""
    error: str = ""
    at: float = 0.0
    seconds: float = 0.0
    identity: str = ""
    cached: bool = False
    kind: ExchangeKind = ExchangeKind.HTTP
