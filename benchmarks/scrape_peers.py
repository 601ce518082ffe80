"""The peers, each tuned as its documentation says, in an environment of their own: `python -m benchmarks.scrape_peers`.

`pip install scrapy 'crawlee[parsel]' selectolax`. They keep no records, only count them, which is in their favour; nor
do they keep a queue that would survive them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from benchmarks.scrape_parse import records

CONCURRENCY = 64


def scrapy(urls: list[str], parse: Any) -> dict[str, int]:
    """A spider that yields each record as an item."""
    library = importlib.import_module("scrapy")
    crawling = importlib.import_module("scrapy.crawler")
    found = {"pages": 0, "records": 0}

    class Spider(library.Spider):  # type: ignore[misc,name-defined]
        name = "bench"

        async def start(self) -> Any:
            for url in urls:
                yield library.Request(url, dont_filter=True)

        def parse(self, response: Any) -> Iterator[dict[str, Any]]:
            found["pages"] += 1
            for record in parse(response):
                found["records"] += 1
                yield record

    process = crawling.CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": CONCURRENCY,
            "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
            "DOWNLOAD_DELAY": 0,
            "AUTOTHROTTLE_ENABLED": False,
            "RETRY_ENABLED": False,
            "COOKIES_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_ENABLED": False,
        }
    )
    process.crawl(Spider)
    process.start()
    return found


def with_parsel(response: Any) -> Iterator[dict[str, Any]]:
    """What is taken from a page, with the selectors of Scrapy and Crawlee; the same as `records` takes."""
    for item in response.css("article.item"):
        yield {
            "id": item.attrib["id"],
            "url": item.css("h2.title a::attr(href)").get(),
            "title": item.css("h2.title a::text").get(),
            "price": item.css("p.price::text").get(),
            "text": item.css("p.text::text").get(),
            "tags": item.css("ul.tags li::text").getall(),
        }


async def crawlee(urls: list[str], kind: str) -> dict[str, int]:
    """A crawler whose requests lie in memory."""
    library = importlib.import_module("crawlee")
    crawlers = importlib.import_module("crawlee.crawlers")
    storages = importlib.import_module("crawlee.storage_clients")
    found = {"pages": 0, "records": 0}
    crawler = getattr(crawlers, kind)(
        concurrency_settings=library.ConcurrencySettings(
            min_concurrency=CONCURRENCY, desired_concurrency=CONCURRENCY, max_concurrency=CONCURRENCY
        ),
        storage_client=storages.MemoryStorageClient(),
        max_request_retries=0,
        configure_logging=False,
        statistics_log_format="inline",
        request_handler_timeout=timedelta(seconds=60),
    )

    @crawler.router.default_handler  # type: ignore[untyped-decorator]
    async def handle(context: Any) -> None:
        if kind == "HttpCrawler":
            found["records"] += len(records(await context.http_response.read()))
        else:
            found["records"] += len(list(with_parsel(context.selector)))
        found["pages"] += 1

    await crawler.run(urls)
    return found


def main(name: str, site: str, pages: str) -> dict[str, int]:
    """Crawl the site with one of them."""
    logging.disable(logging.CRITICAL)
    urls = [f"{site}/page/{number}" for number in range(int(pages))]
    match name:
        case "scrapy":
            return scrapy(urls, with_parsel)
        case "scrapy-selectolax":
            return scrapy(urls, lambda response: records(response.body))
        case "crawlee-http":
            return asyncio.run(crawlee(urls, "HttpCrawler"))
        case "crawlee-parsel":
            return asyncio.run(crawlee(urls, "ParselCrawler"))
    raise SystemExit(f"There is no {name}.")


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
