"""Scrape the local site: the name, the price and the links of each item.

In one terminal, serve the site and write down its pages:

    python -m longshore.demo.site --pages 10000 --urls-file urls.txt

In another, scrape it with four workers:

    longshore run examples/site.py --urls-file urls.txt --workers 4
"""

from typing import Any

from longshore import AsyncKit, ProcessingError, handler


@handler("item", timeout=10, retries=3)
async def item(url: str, kit: AsyncKit) -> dict[str, Any]:
    page = await kit.http.get(url)
    price = page.text_of(".price", "")
    if not price:
        # The page came whole and has no price: fetching it again will not help.
        raise ProcessingError(f"{url} has no price", retryable=False)
    return {"name": page.text_of("h1"), "price": float(price), "links": page.links()}
