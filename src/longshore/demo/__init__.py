"""A small local site to scrape, and the handler that scrapes it."""
