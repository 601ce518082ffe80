"""Whether proxies work: each is asked to fetch one page, many at a time."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import urlsplit

import aiohttp
import msgspec

from longshore.errors import UsageError
from longshore.scrape.http.client import USER_AGENT
from longshore.scrape.proxies.blame import in_words, status_in_words
from longshore.scrape.proxies.connection import SOCKS_ERRORS, connector_for, request_proxy
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.url import mask_url

DEADLINE = timedelta(seconds=10)
"""For one proxy, from the connection to the end of the page."""
AT_ONCE = 50
_LONGEST_ANSWER = 4096
_KEYS = ("ip", "origin", "address", "query")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a proxy did when it was asked."""

    proxy: str
    """With its password masked."""
    ok: bool
    why: str = ""
    """What went wrong."""
    seconds: float | None = None
    """How long it took; None where there was no answer."""
    exit_address: str | None = None
    """The address the page saw, where the page tells."""


async def check_proxies(
    proxies: Sequence[Proxy], url: str, *, deadline: timedelta = DEADLINE, at_once: int = AT_ONCE
) -> list[Checked]:
    """Fetch a page through every proxy, so many at a time. What came of it, in the order of the proxies.

    `UsageError` for what is no URL: that is no proxy's fault.
    """
    if not _can_be_fetched(url):
        raise UsageError(f"'{mask_url(url)}' is not a URL that can be fetched. Give one such as https://example.com.")
    room = asyncio.Semaphore(at_once)

    async def one(proxy: Proxy) -> Checked:
        async with room:
            return await _check(proxy, url, deadline)

    return await asyncio.gather(*(one(proxy) for proxy in proxies))


def _can_be_fetched(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


async def _check(proxy: Proxy, url: str, deadline: timedelta) -> Checked:
    shown, started = str(proxy), time.monotonic()
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector_for(proxy),
                timeout=aiohttp.ClientTimeout(total=deadline.total_seconds()),
                headers={"User-Agent": USER_AGENT},
            ) as session,
            session.get(url, proxy=request_proxy(proxy)) as answer,
        ):
            body = await _beginning(answer)
            seconds = time.monotonic() - started
            if answer.status >= 400:
                why = f"answered {status_in_words(answer.status)}"
                return Checked(proxy=shown, ok=False, why=why, seconds=seconds)
            return Checked(proxy=shown, ok=True, seconds=seconds, exit_address=address_in(body))
    except TimeoutError as error:
        return Checked(proxy=shown, ok=False, why=f"{in_words(error)} ({deadline.total_seconds():g} s)")
    except (aiohttp.ClientError, OSError, ValueError, *SOCKS_ERRORS) as error:
        return Checked(proxy=shown, ok=False, why=in_words(error))


async def _beginning(answer: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > _LONGEST_ANSWER:
            break
    return body


def address_in(body: bytes) -> str | None:
    """The address that a page tells, as text or as JSON; None where it tells none."""
    text = body.decode(errors="replace").strip()
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = text
    if isinstance(said, dict):
        said = next((said[key] for key in _KEYS if key in said), "")
    # Behind several proxies some pages name all of them, the nearest last.
    candidate = str(said).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(candidate))
    except ValueError:
        return None
