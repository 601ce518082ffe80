"""The same shop with Longshore, Scrapy and Crawlee, as a user writes it on the first day."""
