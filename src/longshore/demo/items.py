"""The handler of the demo: it returns the name, the price and the links of one page of the shop."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from longshore.errors import ProcessingError
from longshore.handlers.handler import handler
from longshore.handlers.kit import AsyncKit
from longshore.job import Job

_NAME = re.compile(r"<h1>([^<]+)</h1>")
_PRICE = re.compile(r'<span class="price">([0-9.]+)</span>')
_LINK = re.compile(r'<a href="([^"]+)">')


@handler("item", timeout=3, retries=2, backoff=0.5)
async def item(job: Job, kit: AsyncKit) -> dict[str, object]:
    """Fetch the page, and return its name, price and links."""
    url = job.payload["url"]
    text = (await kit.http.get(url)).text
    name, price = _NAME.search(text), _PRICE.search(text)
    if name is None or price is None:
        raise ProcessingError(f"{url} has no name or no price", retryable=False)
    return {"name": name[1], "price": float(price[1]), "links": [urljoin(url, link) for link in _LINK.findall(text)]}
