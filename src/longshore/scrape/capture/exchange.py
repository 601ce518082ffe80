"""An exchange: one request and its response, the input of the page store and of failure bundles."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


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
