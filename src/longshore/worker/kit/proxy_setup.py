"""The proxies of a worker, made from its settings, and the log of their changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from longshore.clock import Clock
from longshore.errors import SettingsError
from longshore.scrape.proxies import Blame, ChangeLog, ProxyChange, ProxyEvent, ProxyLimits, ProxyPool, Strategy, share
from longshore.scrape.proxies.blame import blame_for_status, blame_of, status_of
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.scrape.proxies.proxy_file import Proxy, read_proxies
from longshore.scrape.tor import Tor
from longshore.settings import DOTENV, Settings, read_dotenv
from longshore.worker.kit.config import ProxyConfig, comma_separated

LOG = Path("logs/proxies.log")


def check_tools(settings: Settings) -> None:
    """Raise `UsageError` if settings name files that cannot be used. Called before anything begins."""
    if Path(settings.data_folder).exists() and not Path(settings.data_folder).is_dir():
        raise SettingsError(f"data_folder is {settings.data_folder}, which is a file. Name a folder.")
    if settings.proxy_file is not None:
        read_proxies(Path(settings.proxy_file))
    elif not settings.tor:
        EnvironmentProxies.of({**read_dotenv(Path(DOTENV)), **os.environ})
    if settings.tor_config is not None and not Path(settings.tor_config).is_file():
        raise SettingsError(f"tor_config names {settings.tor_config}, which is not there.")
    if settings.tor and settings.proxy_file is not None:
        raise SettingsError("tor is on and proxy_file is set, and a request goes one way. Switch one of them off.")
    if settings.block_pages is not None:
        from longshore.scrape.block_pages import parse_block_pages

        parse_block_pages(settings.block_pages)
    if settings.browser_blocked is not None:
        from longshore.scrape.browser.command_line import checked_blocked

        checked_blocked(comma_separated(settings.browser_blocked))


def proxy_pool(
    config: ProxyConfig, clock: Clock, tell: Callable[[ProxyChange], None] | None = None
) -> ProxyPool | None:
    """Return the proxy pool; None without a file. Raises `InputFileError` if the file cannot be read.

    `tell` is called with each change of a proxy.
    """
    proxies = own_proxies(config)
    if not proxies:
        return None
    limits = ProxyLimits(threshold=config.threshold, rest=timedelta(minutes=config.rest_minutes))
    return ProxyPool(proxies, strategy=Strategy(config.strategy), limits=limits, tell=tell, clock=clock)


class ProxyWaitReporter:
    """Writes every change of a proxy to `logs/proxies.log`, and reports when requests have to wait for one."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is called with a sentence when requests have to wait for a proxy, and when they go on."""
        self._write = ChangeLog(LOG)
        self._tell = tell
        self._waits: dict[str, ProxyChange] = {}

    def __call__(self, change: ProxyChange) -> None:
        """Take note of a change."""
        self._write(change)
        if change.what is ProxyEvent.WAITS:
            self._waits[change.host] = change
        elif change.what is ProxyEvent.GOES_ON:
            self._waits.pop(change.host, None)
        else:
            return
        if self._tell is not None:
            self._tell(str(change))

    @property
    def summary(self) -> str:
        """The hosts for which requests wait because every proxy rests; empty if none wait."""
        if not self._waits:
            return ""
        # The empty host means that no proxy is left for any host.
        worst = self._waits.get("") or next(iter(self._waits.values()))
        more = len(self._waits) - 1 if worst.host else 0
        others = f" and {more:,} other host{'s' * (more > 1)}" if more else ""
        until = (
            "" if worst.until is None else f", until {datetime.fromtimestamp(worst.until, UTC).astimezone():%H:%M:%S}"
        )
        return f"{worst.why} at {worst.host or 'every host'}{others}{until}"


def own_proxies(config: ProxyConfig) -> list[Proxy]:
    """Return the proxies that a worker may use: all of them, or its own share."""
    if config.file is None:
        return []
    proxies = read_proxies(Path(config.file))
    return proxies if config.rotation else share(proxies, config.number, config.workers)


class TorProxySource:
    """Tor as a source of proxies: each session has its own circuit, and gets a new one when a site refuses it."""

    def __init__(self, tor: Tor) -> None:
        self._tor = tor

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> TorProxy:
        """Return a proxy through Tor. `within` and `prefer` are ignored: a session has one circuit."""
        del within, prefer
        session = session or host
        return TorProxy(self._tor, session, Proxy(await self._tor.proxy(session)))


class TorProxy:
    """The way through Tor for one request."""

    def __init__(self, tor: Tor, session: str, proxy: Proxy) -> None:
        self._tor = tor
        self._session = session
        self.proxy = proxy

    def answered(self, status: int) -> None:
        """Take another exit if the site refused this one."""
        if blame_for_status(status) is not None:
            self._renew()

    def blocked(self, why: str) -> None:
        """As `answered` with 403."""
        del why
        self._renew()

    def succeeded(self) -> None:
        """Keep this exit."""

    def failed(self, error: BaseException) -> None:
        """Take another exit if the error is the exit's."""
        if status_of(error) is not None or blame_of(error) is not None:
            self._renew()

    def judged(self, blame: Blame, why: str) -> None:
        """As `blocked`."""
        del blame
        self.blocked(why)

    def give_back(self) -> None:
        """Keep this exit."""

    def _renew(self) -> None:
        self._tor.renew(self._session)
