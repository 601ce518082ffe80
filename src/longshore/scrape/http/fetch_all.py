"""Fetch many URLs concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from longshore.scrape.http.response import Response

AT_ONCE = 8


async def fetch_all(fetch: Callable[[str], Awaitable[Response]], urls: Iterable[str], at_once: int) -> list[Response]:
    """Return the responses in the order of `urls`, with `at_once` in flight. The first error cancels the others."""
    remaining, found = iter(enumerate(urls)), dict[int, Response]()

    async def fetch_next() -> None:
        for position, url in remaining:
            found[position] = await fetch(url)

    workers = [asyncio.ensure_future(fetch_next()) for _ in range(max(at_once, 1))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [found[position] for position in sorted(found)]
