"""Many fetches in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from longshore.scrape.http.response import Response

AT_ONCE = 8


async def fetch_all(fetch: Callable[[str], Awaitable[Response]], urls: Iterable[str], at_once: int) -> list[Response]:
    """The answers, in the order of the URLs; so many are under way at once. The first error ends the others."""
    todo, found = iter(enumerate(urls)), dict[int, Response]()

    async def take_turns() -> None:
        for place, url in todo:
            found[place] = await fetch(url)

    hands = [asyncio.ensure_future(take_turns()) for _ in range(max(at_once, 1))]
    try:
        await asyncio.gather(*hands)
    finally:
        for hand in hands:
            hand.cancel()
        await asyncio.gather(*hands, return_exceptions=True)
    return [found[place] for place in sorted(found)]
