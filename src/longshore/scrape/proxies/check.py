"""Check whether proxies work: fetch one page through each of them, many at a time."""

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
"""The time for one proxy, from the connection to the end of the page."""
AT_ONCE = 50
_LONGEST_ANSWER = 4096
_KEYS = ("ip", "origin", "address", "query")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the check of one proxy."""

    proxy: str
    """With its password masked."""
    ok: bool
    why: str = ""
    """The cause of a failure."""
    seconds: float | None = None
    """The duration; None without a response."""
    exit_address: str | None = None
    """The client address that the page reports, if it reports one."""


async def check_proxies(
    proxies: Sequence[Proxy], url: str, *, deadline: timedelta = DEADLINE, at_once: int = AT_ONCE
) -> list[Checked]:
    """Fetch `url` through every proxy, `at_once` at a time, and return the results in the order of `proxies`.

    Raise `UsageError` for an invalid URL.
    """
    if not _can_be_fetched(url):
        raise UsageError(f"'{mask_url(url)}' is not a URL that can be fetched. Give one such as https://example.com.")
    slots = asyncio.Semaphore(at_once)

    async def one(proxy: Proxy) -> Checked:
        async with slots:
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
            body = await _read_start(answer)
            seconds = time.monotonic() - started
            if answer.status >= 400:
                why = f"answered {status_in_words(answer.status)}"
                return Checked(proxy=shown, ok=False, why=why, seconds=seconds)
            return Checked(proxy=shown, ok=True, seconds=seconds, exit_address=address_in(body))
    except TimeoutError as error:
        return Checked(proxy=shown, ok=False, why=f"{in_words(error)} ({deadline.total_seconds():g} s)")
    except (aiohttp.ClientError, OSError, ValueError, *SOCKS_ERRORS) as error:
        return Checked(proxy=shown, ok=False, why=in_words(error))


async def _read_start(answer: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > _LONGEST_ANSWER:
            break
    return body


def address_in(body: bytes) -> str | None:
    """Return the IP address that a page reports, as text or as JSON; None if it reports none."""
    text = body.decode(errors="replace").strip()
    try:
        reported = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        reported = text
    if isinstance(reported, dict):
        reported = next((reported[key] for key in _KEYS if key in reported), "")
    # Behind several proxies some pages list all addresses, the nearest last.
    candidate = str(reported).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(candidate))
    except ValueError:
        return None
