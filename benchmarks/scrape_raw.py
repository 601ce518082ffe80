"""The least that fetches and parses: aiohttp, selectolax, a queue in memory. `python -m benchmarks.scrape_raw SITE`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import aiohttp

from benchmarks.scrape_parse import records

CONCURRENCY = 64


async def crawl(urls: Iterator[str]) -> dict[str, int]:
    """Fetch and parse them all; how many pages and records there were."""
    found = {"pages": 0, "records": 0}

    async def visit(session: aiohttp.ClientSession) -> None:
        for url in urls:
            async with session.get(url) as answer:
                body = await answer.read()
            found["records"] += len(records(body))
            found["pages"] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:
        await asyncio.gather(*(visit(session) for _ in range(CONCURRENCY)))
    return found


if __name__ == "__main__":
    site, pages = sys.argv[1:]
    print(json.dumps(asyncio.run(crawl(f"{site}/page/{number}" for number in range(int(pages))))))
