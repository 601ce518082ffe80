"""The tools of a handler's kit: HTTP, browsers, proxies, Tor, records, and the capture of pages and failures."""

from longshore.scrape.former_modules import register

register(__name__)
