"""A replica of a site of business listings, unfriendly as the real ones, with fifty proxies of its own.

world    which businesses there are, and which of them a perfect scrape accepts
layouts  the pages, with their two layouts, malformed fields and wrong encodings
limits   how often an address may ask: token bucket, sliding window, bans
site     the server: `python -m yellowpages.replica`
"""
