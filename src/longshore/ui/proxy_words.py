"""The proxies of the workers, in a few words."""

from __future__ import annotations

import time
from pathlib import Path

from longshore.settings import Settings


def resting_proxies(settings: Settings) -> str:
    """Return how many of the workers' proxies rest at some host, as words; empty without proxies."""
    from longshore.scrape.proxies.health_table import rows
    from longshore.scrape.proxies.status_file import read_status_files

    if settings.proxy_file is None:
        return ""
    counters = [each.counters for each in read_status_files(Path(settings.data_folder) / "proxies")]
    every = {proxy.proxy for each in counters for proxy in each}
    rest = {row.proxy for row in rows(counters, time.time()) if row.state == "resting"}
    return f"{len(rest):,} of {len(every):,} rest" if every else ""
