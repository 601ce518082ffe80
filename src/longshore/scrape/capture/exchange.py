"""An exchange: one request and its answer, as pages are kept and failures are shown."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked and what was answered. Nothing is masked here; whoever shows or stores it does that."""

    method: str = "GET"
    url: str
    """As it was asked for."""
    final_url: str = ""
    """Where the answer came from, after redirects."""
    request_headers: Mapping[str, str] = {}
    request_body: bytes = b""
    status: int | None = None
    """None where there was no answer; then `error` says why."""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    error: str = ""
    at: float = 0.0
    """When it was asked, in seconds since 1970."""
    seconds: float = 0.0
    identity: str = ""
    """As whom it was asked: the proxy or circuit, without its password; empty for the machine's own address."""
    cached: bool = False
    """Whether the answer came from the cache."""
