"""What browsers say when a page cannot be had, and what it means."""

from __future__ import annotations

import re

from longshore.errors import ConnectionFailedError, CrashedError, ProcessingError, ValidationError, WorkerError
from longshore.scrape.browser.local_proxy import Trouble
from longshore.url import mask_url, mask_urls

_NET_ERROR = re.compile(r"net::(ERR_[A-Z0-9_]+)")
# The proxy is not there, or lets nobody in; and: it does not get to this site.
_OWN_ERRORS = frozenset({"ERR_PROXY_CONNECTION_FAILED", "ERR_PROXY_AUTH_REQUESTED", "ERR_PROXY_CERTIFICATE_INVALID"})
_PROXY_ERRORS = _OWN_ERRORS | {"ERR_TUNNEL_CONNECTION_FAILED", "ERR_SOCKS_CONNECTION_FAILED"}
_NO_URL = re.compile(r"invalid url|invalid argument|ERR_INVALID_URL|ERR_UNKNOWN_URL_SCHEME", re.IGNORECASE)
_DOWNLOAD = "Download is starting"
_DEATH = re.compile(
    r"(page|target|tab) crashed|has been closed|connection closed|disconnected|not reachable|invalid session id"
    r"|no such window|session deleted|not connected to DevTools|failed to check if window was closed",
    re.IGNORECASE,
)


class ProxyFailedError(ConnectionFailedError):
    """The proxy could not be reached, or lets nobody in: no site is to blame."""


def is_death(message: str) -> bool:
    """Whether a driver's error means that the tab or the whole browser is gone."""
    return _DEATH.search(message) is not None


def death(what: str) -> CrashedError:
    """The error of a browser that died; `what` is the driver's own message."""
    return CrashedError(f"the browser died: {first_line(what)}. The next job gets a new one.")


def download(url: str) -> ProcessingError:
    """The error for what browsers save instead of showing."""
    return ProcessingError(
        f"{mask_url(url)} gave no page, but a file to download, or nothing. Fetch it with `kit.http.get`.",
        retryable=False,
    )


def navigation_fault(url: str, message: str, proxy_trouble: Trouble | None) -> WorkerError:
    """The error for a URL that could not be opened; `message` is the driver's own."""
    shown = mask_url(url)
    found = _NET_ERROR.search(message)
    if _NO_URL.search(message):
        return ValidationError(f"'{shown}' is not a URL that can be opened.")
    if _DOWNLOAD in message:
        return download(url)
    if proxy_trouble is not None:
        failed = ProxyFailedError if proxy_trouble.own else ConnectionFailedError
        return failed(f"{shown} could not be opened: {proxy_trouble.words}")
    if found and found[1] in _PROXY_ERRORS:
        failed = ProxyFailedError if found[1] in _OWN_ERRORS else ConnectionFailedError
        return failed(f"{shown} could not be opened: the proxy does not serve it ({found[1]})")
    if found:
        return ConnectionFailedError(f"{shown} could not be opened: {found[1]}")
    if is_death(message):
        return death(message)
    return ProcessingError(f"{shown} could not be opened: {first_line(message)}")


def first_line(message: str) -> str:
    """What a driver says, without its stack and without secrets."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return mask_urls(lines[0]).rstrip(".") if lines else "it gives no reason"
