"""Translate the error messages of browsers and drivers into Longshore's errors."""

from __future__ import annotations

import re

from longshore.errors import ConnectionFailedError, CrashedError, ProcessingError, ValidationError, WorkerError
from longshore.scrape.browser.local_proxy import Trouble
from longshore.url import mask_url, mask_urls

_NET_ERROR = re.compile(r"net::(ERR_[A-Z0-9_]+)")
# The proxy cannot be reached or refuses our login (`_OWN_ERRORS`), or it cannot reach this site (the other two).
_OWN_ERRORS = frozenset({"ERR_PROXY_CONNECTION_FAILED", "ERR_PROXY_AUTH_REQUESTED", "ERR_PROXY_CERTIFICATE_INVALID"})
_PROXY_ERRORS = _OWN_ERRORS | {"ERR_TUNNEL_CONNECTION_FAILED", "ERR_SOCKS_CONNECTION_FAILED"}
_INVALID_URL = re.compile(r"invalid url|invalid argument|ERR_INVALID_URL|ERR_UNKNOWN_URL_SCHEME", re.IGNORECASE)
_DOWNLOAD = "Download is starting"
_DIED = re.compile(
    r"(page|target|tab) crashed|has been closed|connection closed|disconnected|not reachable|invalid session id"
    r"|no such window|session deleted|not connected to DevTools|failed to check if window was closed",
    re.IGNORECASE,
)


class ProxyFailedError(ConnectionFailedError):
    """The proxy could not be reached or refused our login: no site is to blame."""


def means_died(message: str) -> bool:
    """Return whether a driver's error message means that the tab or the whole browser died."""
    return _DIED.search(message) is not None


def browser_died(message: str) -> CrashedError:
    """Return the error for a browser that died; `message` is the driver's own."""
    return CrashedError(f"the browser died: {first_line(message)}. The next job gets a new one.")


def download(url: str) -> ProcessingError:
    """Return the error for a URL that browsers download instead of showing."""
    return ProcessingError(
        f"{mask_url(url)} is a file to download or an empty answer, not a page. Fetch it with `kit.http.get`.",
        retryable=False,
    )


def navigation_fault(url: str, message: str, proxy_trouble: Trouble | None) -> WorkerError:
    """Return the error for a URL that could not be opened; `message` is the driver's own."""
    shown = mask_url(url)
    found = _NET_ERROR.search(message)
    if _INVALID_URL.search(message):
        return ValidationError(f"'{shown}' is not a URL that can be opened.")
    if _DOWNLOAD in message:
        return download(url)
    if proxy_trouble is not None and proxy_trouble.refusal is not None:
        return proxy_trouble.refusal
    if proxy_trouble is not None:
        failed = ProxyFailedError if proxy_trouble.own else ConnectionFailedError
        return failed(f"{shown} could not be opened: {proxy_trouble.words}")
    if found and found[1] in _PROXY_ERRORS:
        failed = ProxyFailedError if found[1] in _OWN_ERRORS else ConnectionFailedError
        return failed(f"{shown} could not be opened: the proxy failed ({found[1]})")
    if found:
        return ConnectionFailedError(f"{shown} could not be opened: {found[1]}")
    if means_died(message):
        return browser_died(message)
    return ProcessingError(f"{shown} could not be opened: {first_line(message)}")


def first_line(message: str) -> str:
    """Return the first line of a driver's message: no stack trace, secrets masked."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return mask_urls(lines[0]).rstrip(".") if lines else "it gives no reason"
