"""The tools of a handler's kit: HTTP, browsers, proxies, Tor, records, and the capture of pages and failures."""
