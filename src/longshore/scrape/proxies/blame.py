"""Whose fault it was: the proxy's own, or that of the site it was sent to, or neither's.

PROXY    the proxy cannot be reached or lets nobody in: counts against it at every host
SITE     the proxy was reached, and this site does not serve it: counts against it there
None     says nothing about the proxy
"""

from __future__ import annotations

import asyncio
import os
import re
from enum import Enum
from http import HTTPStatus

from longshore.url import mask_urls

_NO_LOGIN = 407
# How sites turn an address away, and how a proxy says that it does not reach a site.
_TURNED_AWAY = frozenset({403, 429, 502, 503, 504})
# SOCKS5: a failure, a rule, no way to the network or the host, refused, too far. SOCKS4: rejected or failed.
_NOT_REACHED = frozenset({1, 2, 3, 4, 5, 6, 91})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_LONGEST = 200
_REPEATED = re.compile(r"\s+")


class Blame(Enum):
    """Who made a request fail."""

    PROXY = "proxy"
    SITE = "site"


def blame_for_status(status: int) -> Blame | None:
    """Who is to blame for an answer; None where the site served the page, or failed as it would for anybody."""
    if status == _NO_LOGIN:
        return Blame.PROXY
    return Blame.SITE if status in _TURNED_AWAY else None


def blame_of(error: BaseException) -> Blame | None:
    """Who is to blame for an error, or for what caused it; None where it is neither proxy nor site."""
    return _blame(root_of(error))


def is_unreachable(error: BaseException) -> bool:
    """Whether it is certain that the proxy itself was not reached, and so that nothing was sent to the site.

    A connection that was not made in time is not: behind a tunnel it may be the site that is silent.
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
    """The status of the site's answer, where the error is one about that."""
    import aiohttp

    from longshore.scrape.http.client import StatusError

    root = root_of(error)
    if isinstance(root, aiohttp.ClientHttpProxyError):
        return None
    return root.status if isinstance(root, StatusError | aiohttp.ClientResponseError) else None


def root_of(error: BaseException) -> BaseException:
    """The error, or the first of its causes that says what happened on the way."""
    from longshore.scrape.http.client import StatusError

    cause: BaseException | None = error
    while cause is not None:
        if _blame(cause) is not None or isinstance(cause, StatusError):
            return cause
        cause = cause.__cause__
    return error


def status_in_words(status: int) -> str:
    """`403 Forbidden`."""
    return f"{status} {_PHRASES.get(status, '')}".strip()


def in_words(error: BaseException) -> str:
    """An error in a few words of one line, with no password in them."""
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
        return "the proxy hung up"
    text = _REPEATED.sub(" ", mask_urls(str(error))).strip() or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _reason(error: OSError) -> str:
    # What asyncio says names the address once more, and not what is wrong.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else mask_urls(str(error))


def _blame(error: BaseException) -> Blame | None:
    import aiohttp
    import aiohttp_socks

    from longshore.scrape.http.client import StatusError

    match error:
        case aiohttp.ClientHttpProxyError():
            # It answered, and would not, or could not, let us through to this site.
            return Blame.PROXY if error.status == _NO_LOGIN else Blame.SITE
        case StatusError() | aiohttp.ClientResponseError():
            return blame_for_status(error.status)
        case aiohttp_socks.ProxyError():
            return Blame.SITE if error.error_code in _NOT_REACHED else Blame.PROXY
        case (
            aiohttp_socks.ProxyConnectionError()
            | aiohttp_socks.ProxyTimeoutError()
            # A SOCKS proxy hung up in the middle of the greeting; nobody else reads so.
            | asyncio.IncompleteReadError()
            | aiohttp.ClientProxyConnectionError()
            # Names of sites are resolved by the proxy: the one we could not resolve is its own.
            | aiohttp.ClientConnectorDNSError()
            # Most often nobody is there. A site that cannot be reached may look the same through a tunnel; then the
            # next answer from any other host clears the proxy.
            | aiohttp.ConnectionTimeoutError()
        ):
            return Blame.PROXY
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | TimeoutError() | ConnectionError():
            return Blame.SITE
    return None
