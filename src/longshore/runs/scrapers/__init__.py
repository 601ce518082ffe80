"""Scrapers by name: the registry, and how one is started or resumed."""
