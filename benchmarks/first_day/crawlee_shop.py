# ruff: noqa
# mypy: ignore-errors
import asyncio
import json
import os
import sys
from urllib.parse import urlencode

from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.request_loaders import SitemapRequestLoader
from crawlee.sessions import SessionPool

SHOP = os.environ["SHOP"]


async def main():
    client = ImpitHttpClient()
    sitemap = SitemapRequestLoader(sitemap_urls=[SHOP + "/sitemap.xml.gz"], http_client=client)
    crawler = ParselCrawler(
        http_client=client,
        request_manager=await sitemap.to_tandem(),
        respect_robots_txt_file=True,
        session_pool=SessionPool(max_pool_size=1),
        concurrency_settings=ConcurrencySettings(desired_concurrency=16, max_concurrency=16),
    )

    @crawler.router.default_handler
    async def page(context: ParselCrawlingContext):
        if form := context.selector.css("#login"):
            fields = {field.attrib["name"]: field.attrib.get("value", "") for field in form.css("input")}
            await context.send_request(
                SHOP + form.attrib["action"],
                method="POST",
                payload=urlencode(fields | {"user": "ann", "password": "rope-and-oak"}).encode(),
                headers={"Content-Type": "application/x-www-form-urlencoded"},
            )
            return await context.add_requests([Request.from_url(context.request.url, always_enqueue=True)])
        for data in context.selector.css('script[type="application/ld+json"]::text').getall():
            product = json.loads(data)
            if product["@type"] == "Product":
                item = {"sku": product["sku"], "name": product["name"], "price": product["offers"]["price"]}
                await context.push_data(item)
        await context.enqueue_links()

    await crawler.run()
    await crawler.export_data(sys.argv[1])


asyncio.run(main())
