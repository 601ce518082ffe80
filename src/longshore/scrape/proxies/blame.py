"""Decide who is to blame for a failed request: the proxy, the site, or neither.

PROXY    the proxy cannot be reached or refuses our login: counts against it at every host
SITE     the proxy was reached, but the site did not serve it: counts against it at this host
None     the error says nothing about the proxy
"""

from __future__ import annotations

import asyncio
import os
import re
from enum import Enum
from http import HTTPStatus

from longshore.url import mask_urls

_LOGIN_REQUIRED = 407
# The statuses by which sites block an address, or by which a proxy reports that it cannot reach a site.
_BLOCKED = frozenset({403, 429, 502, 503, 504})
# SOCKS5: failure, forbidden by a rule, network or host unreachable, refused, TTL expired. SOCKS4: rejected or failed.
_SITE_NOT_REACHED = frozenset({1, 2, 3, 4, 5, 6, 91})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_LONGEST = 200
_REPEATED = re.compile(r"\s+")


class Blame(Enum):
    """The party to blame for a failed request."""

    PROXY = "proxy"
    SITE = "site"


def blame_for_status(status: int) -> Blame | None:
    """Return who is to blame for a status; None if the site served the page or fails independently of the proxy."""
    if status == _LOGIN_REQUIRED:
        return Blame.PROXY
    return Blame.SITE if status in _BLOCKED else None


def blame_of(error: BaseException) -> Blame | None:
    """Return who is to blame for an error or its causes; None if neither proxy nor site is."""
    return _blame(root_of(error))


def is_unreachable(error: BaseException) -> bool:
    """Return whether the proxy itself was certainly not reached, so that nothing was sent to the site.

    A connection timeout is not certain: behind a tunnel the site may be the one that does not respond.
    """
    import aiohttp
    import aiohttp_socks

    root = root_of(error)
    if isinstance(root, aiohttp.ConnectionTimeoutError | aiohttp_socks.ProxyTimeoutError):
        return False
    return isinstance(
        root, aiohttp.ClientProxyConnectionError | aiohttp_socks.ProxyConnectionError | aiohttp.ClientConnectorDNSError
    )


def status_of(error: BaseException) -> int | None:
    """Return the status of the site's response if the error is about one, else None."""
    import aiohttp

    from longshore.scrape.http.client import StatusError

    root = root_of(error)
    if isinstance(root, aiohttp.ClientHttpProxyError):
        return None
    return root.status if isinstance(root, StatusError | aiohttp.ClientResponseError) else None


def root_of(error: BaseException) -> BaseException:
    """Return the error or the first of its causes that is a network or status error; else the error itself."""
    from longshore.scrape.http.client import StatusError

    cause: BaseException | None = error
    while cause is not None:
        if _blame(cause) is not None or isinstance(cause, StatusError):
            return cause
        cause = cause.__cause__
    return error


def status_in_words(status: int) -> str:
    """Return the status with its phrase: `403 Forbidden`."""
    return f"{status} {_PHRASES.get(status, '')}".strip()


def in_words(error: BaseException) -> str:
    """Return a short description of an error on one line, with passwords masked."""
    import aiohttp
    import aiohttp_socks

    error = root_of(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {status_in_words(error.status)}"
    if (status := status_of(error)) is not None:
        return f"answered {status_in_words(status)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the proxy's name {error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy cannot be reached: {_reason(error.os_error)}"
    if isinstance(error, aiohttp_socks.ProxyConnectionError) and isinstance(error.__cause__, OSError):
        return f"the proxy cannot be reached: {_reason(error.__cause__)}"
    if isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp_socks.ProxyTimeoutError):
        return "no connection in time"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, asyncio.IncompleteReadError):
        return "the proxy closed the connection"
    text = _REPEATED.sub(" ", mask_urls(str(error))).strip() or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _reason(error: OSError) -> str:
    # asyncio's own text repeats the address instead of naming the cause.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else mask_urls(str(error))


def _blame(error: BaseException) -> Blame | None:
    import aiohttp
    import aiohttp_socks

    from longshore.scrape.http.client import StatusError

    match error:
        case aiohttp.ClientHttpProxyError():
            # The proxy answered, but did not connect us to this site.
            return Blame.PROXY if error.status == _LOGIN_REQUIRED else Blame.SITE
        case StatusError() | aiohttp.ClientResponseError():
            return blame_for_status(error.status)
        case aiohttp_socks.ProxyError():
            return Blame.SITE if error.error_code in _SITE_NOT_REACHED else Blame.PROXY
        case (
            aiohttp_socks.ProxyConnectionError()
            | aiohttp_socks.ProxyTimeoutError()
            # A SOCKS proxy closed the connection during the handshake; only its handshake reads exact sizes.
            | asyncio.IncompleteReadError()
            | aiohttp.ClientProxyConnectionError()
            # The proxy resolves the names of sites, so a name that we cannot resolve is the proxy's own.
            | aiohttp.ClientConnectorDNSError()
            # Usually the proxy is down. An unreachable site may look the same through a tunnel; then the next response
            # from any other host clears the proxy.
            | aiohttp.ConnectionTimeoutError()
        ):
            return Blame.PROXY
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | TimeoutError() | ConnectionError():
            return Blame.SITE
    return None
