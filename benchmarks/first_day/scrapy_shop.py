# ruff: noqa
# mypy: ignore-errors
import json
import os

import scrapy
from scrapy.spiders import SitemapSpider


class Shop(SitemapSpider):
    name = "shop"
    sitemap_urls = [os.environ["SHOP"] + "/robots.txt"]
    custom_settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}

    async def start(self):
        yield scrapy.Request(os.environ["SHOP"] + "/login-page", callback=self.log_in)

    def log_in(self, response):
        fields = {"user": "ann", "password": "rope-and-oak"}
        yield scrapy.FormRequest.from_response(response, formid="login", formdata=fields, callback=self.logged_in)

    async def logged_in(self, response):
        async for request in super().start():
            yield request

    def parse(self, response):
        for data in response.css('script[type="application/ld+json"]::text').getall():
            product = json.loads(data)
            if product["@type"] == "Product":
                yield {"sku": product["sku"], "name": product["name"], "price": product["offers"]["price"]}
        yield from response.follow_all(css="a")
