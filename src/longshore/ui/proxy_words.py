"""The proxies of the workers, in a few words."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from longshore.errors import InputFileError
from longshore.settings import Settings


def resting_proxies(settings: Settings) -> str:
    """Return how many of the workers' proxies rest at some host, as words; empty without proxies.

    The workers of an earlier run, which are known for an hour, may have had other proxies: only those of the proxy file
    count, if it can be read.
    """
    from longshore.scrape.proxies.health_table import rows
    from longshore.scrape.proxies.proxy_file import read_proxies
    from longshore.scrape.proxies.status_file import read_status_files

    if settings.proxy_file is None:
        return ""
    counters = [each.counters for each in read_status_files(Path(settings.data_folder) / "proxies")]
    every = {proxy.proxy for each in counters for proxy in each}
    with suppress(InputFileError):
        every &= {str(proxy) for proxy in read_proxies(Path(settings.proxy_file))}
    rest = {row.proxy for row in rows(counters, time.time()) if row.state == "resting"} & every
    return f"{len(rest):,} of {len(every):,} rest" if every else ""
