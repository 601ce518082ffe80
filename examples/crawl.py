"""Crawl the local site from one page: follow its links, and emit an item for each page.

In one terminal, serve the site:

    python -m longshore.demo.site --pages 500

In another, crawl it into a table:

    longshore run examples/crawl.py http://127.0.0.1:8765/item/1 --items items.csv
"""

from longshore import AsyncKit, handler
from longshore.job import NewJob


@handler("item", timeout=30, retries=3)
async def item(url: str, kit: AsyncKit) -> list[NewJob]:
    page = await kit.http.get(url)
    kit.emit({"url": page.url, "name": page.text_of("h1"), "price": float(page.text_of(".price"))})
    return page.follow()
