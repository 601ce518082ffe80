"""What the tools of a worker's handlers are to be like, as the settings say. Children are told it as they start."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.lease import WorkerId
from longshore.settings import TABLE, SecondsRange, Settings


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which proxies, and how they are used."""

    file: str | None = None
    """None is none."""
    stamp: tuple[int, int, int] | None = None
    """By which a change of the file is seen."""
    rotation: bool = True
    """Every request may take any of them; otherwise the worker keeps to its own share."""
    strategy: str = "round_robin"
    threshold: int = 10
    """Failures in a row after which one rests."""
    rest_minutes: float = 60.0
    number: int = 0
    """The worker's number in its fleet."""
    workers: int = 1
    """How many workers the fleet has."""


class KitConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's tools."""

    folder: str = ".longshore"
    """Where records, pages and failure bundles are kept."""
    records_database: str | None = None
    """Where records go in place of the folder."""
    contact: str = ""
    """Whom a site's owner may write to; part of the user agent."""
    user_agent: str = ""
    """In place of our own."""
    robots: bool = True
    """Whether robots.txt is obeyed, where a handler does not say otherwise."""
    transport: str = "aiohttp"
    cache_hours: float = 0.0
    """How long an answer may be taken from the cache; 0 is no cache."""
    host_delay: SecondsRange = SecondsRange(0.0, 0.0)
    """Seconds between two requests to one host, for the whole fleet, drawn anew each time; 0 learns the rate."""
    host_first_rate: float = 1.0
    """Requests a second to a host of which nothing is known."""
    host_rate: float = 1000.0
    """The most requests a second to one host, for the whole fleet."""
    proxies: ProxyConfig = ProxyConfig()
    browser: str = "playwright"
    targets_per_browser: int = 100
    browser_blocked: tuple[str, ...] = ()
    """Types of resources that browsers do not load."""
    tor: bool = False
    """Whether requests go through a Tor of the worker's own."""
    tor_config: str | None = None
    keep_pages: bool = False
    bundles: int = 1
    """How many failures of each kind are kept whole, for `replay`."""
    worker: str = ""
    """The worker's label."""
    settings: dict[str, str] = {}
    """All settings as text that is safe to show, for failure bundles."""

    @classmethod
    def of(cls, settings: Settings, worker: WorkerId, *, number: int = 0, workers: int = 1) -> KitConfig:
        """As the settings say, for the worker of this number among so many."""
        return cls(
            folder=settings.data_folder,
            records_database=settings.records_database,
            contact=settings.contact or "",
            user_agent=settings.user_agent or "",
            robots=settings.robots,
            transport=settings.transport,
            cache_hours=settings.cache_hours,
            host_delay=settings.host_delay,
            host_first_rate=settings.host_first_rate,
            host_rate=settings.host_rate,
            proxies=ProxyConfig(
                file=settings.proxy_file,
                stamp=_stamp(settings.proxy_file),
                rotation=settings.proxy_rotation,
                strategy=settings.proxy_strategy,
                threshold=settings.proxy_blacklist_threshold,
                rest_minutes=settings.proxy_blacklist_minutes,
                number=number,
                workers=workers,
            ),
            browser=settings.browser,
            targets_per_browser=settings.max_targets_per_browser,
            browser_blocked=blocked_types(settings.browser_blocked),
            tor=settings.tor,
            tor_config=settings.tor_config,
            keep_pages=settings.keep_pages,
            bundles=settings.bundles,
            worker=worker.label,
            settings={name: settings.shown(name) for name in TABLE},
        )


def blocked_types(said: str | None) -> tuple[str, ...]:
    """The types that a text names, separated by commas."""
    return tuple(word for word in (part.strip() for part in (said or "").split(",")) if word)


def _stamp(file: str | None) -> tuple[int, int, int] | None:
    try:
        found = None if file is None else Path(file).stat()
    except OSError:
        return None
    # Not when it was written: one that may be read at last was not written anew.
    return None if found is None else (found.st_ctime_ns, found.st_size, found.st_ino)
