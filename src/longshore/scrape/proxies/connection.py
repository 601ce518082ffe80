"""Send aiohttp requests through a proxy: each SOCKS proxy needs its own connector, all other proxies share one.

    async with aiohttp.ClientSession(connector=connector_for(proxy)) as session:
        async with session.get(url, proxy=request_proxy(proxy)) as answer: …

aiohttp_socks implements SOCKS, and its errors are not aiohttp's: catch `SOCKS_ERRORS` in addition to
`aiohttp.ClientError`. `blame.blame_of` knows all of them. Also set `sock_connect` of the timeout, to distinguish a
proxy that does not respond from a slow site: with `total` alone both end with the same error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import aiohttp_socks

if TYPE_CHECKING:
    from longshore.scrape.proxies.proxy_file import Proxy

SOCKS_ERRORS = (
    aiohttp_socks.ProxyError,
    aiohttp_socks.ProxyConnectionError,
    aiohttp_socks.ProxyTimeoutError,
    # The proxy closed the connection during the handshake.
    asyncio.IncompleteReadError,
)
"""The errors of a SOCKS proxy."""


def speaks_socks(proxy: Proxy) -> bool:
    """Return whether a proxy uses SOCKS and so needs its own connector."""
    return urlsplit(proxy.url).scheme.lower().startswith("socks")


def connector_for(proxy: Proxy, **options: Any) -> aiohttp.TCPConnector:
    """Return a connector that uses this proxy; each request must also pass `proxy=request_proxy(proxy)`.

    A SOCKS5 proxy resolves the names of sites, both as `socks5` and as `socks5h`: a local lookup would reveal the sites
    to this machine's name server. SOCKS4 cannot resolve names.
    """
    if not speaks_socks(proxy):
        return aiohttp.TCPConnector(**options)
    parts = urlsplit(proxy.url)
    scheme = parts.scheme.lower().removesuffix("h")
    url = urlunsplit(parts._replace(scheme=scheme))
    return aiohttp_socks.ProxyConnector.from_url(url, rdns=True if scheme == "socks5" else None, **options)


def request_proxy(proxy: Proxy) -> str | None:
    """Return the `proxy` argument for each aiohttp request; None for SOCKS, where the connector has it."""
    return None if speaks_socks(proxy) else proxy.url
