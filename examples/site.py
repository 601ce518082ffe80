"""Scrape the local site: the name, the price and the links of each item.

In one terminal, serve the site and write down its pages:

    python -m longshore.demo.site --pages 10000 --urls-file urls.txt

In another, scrape it with four workers:

    longshore run examples/site.py --urls-file urls.txt --workers 4
"""

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from longshore import AsyncKit, Job, ProcessingError, handler


@handler("item", timeout=10, retries=3)
async def item(job: Job, kit: AsyncKit) -> dict[str, Any]:
    url = job.payload["url"]
    page = Page()
    page.feed((await kit.http.get(url)).text)
    if "price" not in page.found:
        # The page came whole and has no price: fetching it again will not help.
        raise ProcessingError(f"{url} has no price", retryable=False)
    return {
        "name": page.found["name"],
        "price": float(page.found["price"]),
        "links": [urljoin(url, link) for link in page.links],
    }


class Page(HTMLParser):
    """Picks the name, the price and the links out of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.links: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = "name" if tag == "h1" else given.get("class") or ""
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 (the parser gives it)
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in {"name", "price"}:
            self.found[self._inside] = data.strip()
