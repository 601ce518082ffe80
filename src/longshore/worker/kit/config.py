"""The configuration of the tools of a worker's handlers, from the settings. Child processes get it when they start."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.lease import WorkerId
from longshore.settings import TABLE, SecondsRange, Settings


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which proxies, and how they are used."""

    file: str | None = None
    """None for no proxies."""
    stamp: tuple[int, int, int] | None = None
    """Changes when the file changes."""
    rotation: bool = True
    """Whether every request may take any of them; if not, the worker uses only its own share."""
    strategy: str = "round_robin"
    threshold: int = 10
    """Failures in a row after which a proxy rests."""
    rest_minutes: float = 60.0
    number: int = 0
    """The worker's number in its fleet."""
    workers: int = 1
    """How many workers the fleet has."""


class KitConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one worker's tools."""

    folder: str = ".longshore"
    """Where records, pages and failure bundles are kept."""
    records_database: str | None = None
    """The database for records; None keeps them in the folder."""
    outbox: str | None = None
    """The folder of pages and failure bundles until the queue has them; None if they stay in the folder."""
    contact: str = ""
    """The address that the owner of a site may write to; part of the user agent."""
    user_agent: str = ""
    """Replaces Longshore's own user agent; empty keeps it."""
    robots: bool = True
    """Whether robots.txt is obeyed, unless a handler says otherwise."""
    private_hosts: tuple[str, ...] = ()
    """Names, addresses and networks that pages may lead to although they are not public."""
    block_pages: str = ""
    """Pages that are refusals whatever their status says, as `parse_block_pages` reads them."""
    known_block_pages: bool = True
    """Whether the block pages of large delivery networks are recognised."""
    transport: str = "aiohttp"
    cache_hours: float = 0.0
    """How long an answer may be taken from the cache; 0 for no cache."""
    host_delay: SecondsRange = SecondsRange(0.0, 0.0)
    """Seconds between two requests to one host, for the whole fleet, drawn each time; 0 learns the rate."""
    host_first_rate: float = 1.0
    """Requests a second to a host that was never asked before."""
    host_rate: float = 1000.0
    """The most requests a second to one host, for the whole fleet."""
    proxies: ProxyConfig = ProxyConfig()
    browser: str = "playwright"
    targets_per_browser: int = 100
    browser_blocked: tuple[str, ...] = ()
    """Resource types that browsers do not load."""
    tor: bool = False
    """Whether requests go through the worker's own Tor."""
    tor_config: str | None = None
    keep_pages: bool = False
    bundles: int = 1
    """How many failures of each kind are kept as a bundle, for `replay`."""
    pass_env: tuple[str, ...] | None = None
    """The variables of the environment that child processes get, besides those they need; None for all."""
    worker: str = ""
    """The worker's label."""
    settings: dict[str, str] = {}
    """All settings as text that is safe to show, for failure bundles."""

    @classmethod
    def of(cls, settings: Settings, worker: WorkerId, *, number: int = 0, workers: int = 1) -> KitConfig:
        """Return the configuration from the settings, for worker `number` of a fleet of `workers`."""
        return cls(
            folder=settings.data_folder,
            records_database=settings.records_database,
            contact=settings.contact or "",
            user_agent=settings.user_agent or "",
            robots=settings.robots,
            private_hosts=comma_separated(settings.private_hosts),
            block_pages=settings.block_pages or "",
            known_block_pages=settings.known_block_pages,
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
            browser_blocked=comma_separated(settings.browser_blocked),
            tor=settings.tor,
            tor_config=settings.tor_config,
            keep_pages=settings.keep_pages,
            bundles=settings.bundles,
            pass_env=None if settings.pass_env is None else comma_separated(settings.pass_env),
            worker=worker.label,
            settings={name: settings.shown(name) for name in TABLE},
        )


def comma_separated(text: str | None) -> tuple[str, ...]:
    """Return the words in a comma-separated text."""
    return tuple(word for word in (part.strip() for part in (text or "").split(",")) if word)


def _stamp(file: str | None) -> tuple[int, int, int] | None:
    try:
        found = None if file is None else Path(file).stat()
    except OSError:
        return None
    # The time of the last change, not of the last write: new permissions make a file readable without a write.
    return None if found is None else (found.st_ctime_ns, found.st_size, found.st_ino)
