"""Whether all proxies of the workers on the server's machine rest, from the files in which the workers report them."""

from __future__ import annotations

from pathlib import Path

from longshore.clock import Clock
from longshore.scrape.proxies.health_table import rows
from longshore.scrape.proxies.status_file import read_status_files

_EVERY = 5.0
_NAMED = 3


class ProxyRest:
    """The hosts at which no proxy is left, read again every few seconds."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Use `folder` with the files of the workers."""
        self._folder = folder
        self._clock = clock
        self._read_at = float("-inf")
        self._words = ""

    def words(self) -> str:
        """Return a sentence for people; empty if each host still has a proxy, or there are none."""
        if self._clock.monotonic() - self._read_at >= _EVERY:
            self._read_at = self._clock.monotonic()
            self._words = self._told()
        return self._words

    def _told(self) -> str:
        counters = [each.counters for each in read_status_files(self._folder) if each.alive]
        every = {proxy.proxy for each in counters for proxy in each}
        resting: dict[str, set[str]] = {}
        for row in rows(counters, self._clock.now()):
            if row.state == "resting":
                resting.setdefault(row.host, set()).add(row.proxy)
        hosts = sorted(host for host, proxies in resting.items() if every and proxies == every)
        if not hosts:
            return ""
        number = "The only proxy rests" if len(every) == 1 else f"All {len(every):,} proxies rest"
        if "" in hosts:
            return f"{number}: they answer at no host."
        more = f" and {len(hosts) - _NAMED:,} more hosts" if len(hosts) > _NAMED else ""
        return f"{number} at {', '.join(hosts[:_NAMED])}{more}."
