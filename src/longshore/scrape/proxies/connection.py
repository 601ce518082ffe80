"""How aiohttp goes through a proxy: one connector for each SOCKS proxy, one for all of the others.

    async with aiohttp.ClientSession(connector=connector_for(proxy)) as session:
        async with session.get(url, proxy=request_proxy(proxy)) as answer: …

SOCKS is spoken by aiohttp_socks, whose errors are not aiohttp's: whoever fetches catches `SOCKS_ERRORS` beside
`aiohttp.ClientError`. `blame.blame_of` knows them all. Whoever wants to know a proxy that is silent from a site that is
slow sets `sock_connect` of the timeout too: `total` alone ends both with the same error.
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
    # It hung up in the middle of the greeting.
    asyncio.IncompleteReadError,
)
"""What goes wrong with a SOCKS proxy."""


def speaks_socks(proxy: Proxy) -> bool:
    """Whether a proxy needs a connector of its own."""
    return urlsplit(proxy.url).scheme.lower().startswith("socks")


def connector_for(proxy: Proxy, **options: Any) -> aiohttp.TCPConnector:
    """A connector that reaches sites through this proxy, if `request_proxy` is given to each request too.

    A SOCKS5 proxy resolves the names of sites, whichever way its scheme is written: to resolve them here would tell
    this machine's name server what is fetched. SOCKS4 knows no names.
    """
    if not speaks_socks(proxy):
        return aiohttp.TCPConnector(**options)
    parts = urlsplit(proxy.url)
    scheme = parts.scheme.lower().removesuffix("h")
    url = urlunsplit(parts._replace(scheme=scheme))
    return aiohttp_socks.ProxyConnector.from_url(url, rdns=True if scheme == "socks5" else None, **options)


def request_proxy(proxy: Proxy) -> str | None:
    """What aiohttp is given with each request; None where the connector knows already."""
    return None if speaks_socks(proxy) else proxy.url
