"""The proxies of a worker, as its settings say, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from longshore.clock import Clock
from longshore.errors import SettingsError
from longshore.scrape.proxies import Blame, ChangeLog, ProxyChange, ProxyEvent, ProxyLimits, ProxyPool, Strategy, share
from longshore.scrape.proxies.blame import blame_for_status, blame_of, status_of
from longshore.scrape.proxies.proxy_file import Proxy, read_proxies
from longshore.scrape.tor import Tor
from longshore.settings import Settings
from longshore.worker.kit.config import ProxyConfig, blocked_types

LOG = Path("logs/proxies.log")


def check_tools(settings: Settings) -> None:
    """Refuse, before anything begins, settings whose files are not what they must be. Raises `UsageError`."""
    if Path(settings.data_folder).exists() and not Path(settings.data_folder).is_dir():
        raise SettingsError(f"data_folder is {settings.data_folder}, which is a file. Name a folder.")
    if settings.proxy_file is not None:
        read_proxies(Path(settings.proxy_file))
    if settings.tor_config is not None and not Path(settings.tor_config).is_file():
        raise SettingsError(f"tor_config names {settings.tor_config}, which is not there.")
    if settings.tor and settings.proxy_file is not None:
        raise SettingsError("tor is on and proxy_file is set, and a request goes one way. Switch one of them off.")
    if settings.browser_blocked is not None:
        from longshore.scrape.browser.command_line import checked_blocked

        checked_blocked(blocked_types(settings.browser_blocked))


def proxy_pool(
    config: ProxyConfig, clock: Clock, tell: Callable[[ProxyChange], None] | None = None
) -> ProxyPool | None:
    """The pool, which tells its changes; None without a file. Raises `InputFileError` where that cannot be read."""
    proxies = own_proxies(config)
    if not proxies:
        return None
    limits = ProxyLimits(threshold=config.threshold, rest=timedelta(minutes=config.rest_minutes))
    return ProxyPool(proxies, strategy=Strategy(config.strategy), limits=limits, tell=tell, clock=clock)


class ProxyWaitReporter:
    """What becomes of the proxies. Every change is a line in `logs/proxies.log`; some are for people at once."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is told that requests have to wait for a proxy, and that they go on."""
        self._write = ChangeLog(LOG)
        self._tell = tell
        self._waits: dict[str, ProxyChange] = {}

    def __call__(self, change: ProxyChange) -> None:
        """Something has changed."""
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
    def waits(self) -> str:
        """Where every proxy rests, as far as that kept requests waiting; empty where one serves."""
        if not self._waits:
            return ""
        # Where the proxies themselves are gone, no host has any.
        worst = self._waits.get("") or next(iter(self._waits.values()))
        more = len(self._waits) - 1 if worst.host else 0
        others = f" and {more:,} other host{'s' * (more > 1)}" if more else ""
        until = (
            "" if worst.until is None else f", until {datetime.fromtimestamp(worst.until, UTC).astimezone():%H:%M:%S}"
        )
        return f"{worst.why} at {worst.host or 'every host'}{others}{until}"


def own_proxies(config: ProxyConfig) -> list[Proxy]:
    """The proxies a worker may use: all of them, or its own share."""
    if config.file is None:
        return []
    proxies = read_proxies(Path(config.file))
    return proxies if config.rotation else share(proxies, config.number, config.workers)


class TorProxySource:
    """Tor in the place of proxies: a session has a circuit of its own, and another after it was turned away."""

    def __init__(self, tor: Tor) -> None:
        self._tor = tor

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> TorProxy:
        """A turn by way of Tor. `within` does not count: Tor is there, or says why it is not. A session has one way."""
        del within, prefer
        session = session or host
        return TorProxy(self._tor, session, Proxy(await self._tor.proxy(session)))


class TorProxy:
    """One request's turn by way of Tor."""

    def __init__(self, tor: Tor, session: str, proxy: Proxy) -> None:
        self._tor = tor
        self._session = session
        self.proxy = proxy

    def answered(self, status: int) -> None:
        """A site that turns this exit away may let the next one in."""
        if blame_for_status(status) is not None:
            self._renew()

    def blocked(self, why: str) -> None:
        """As `answered` with 403."""
        del why
        self._renew()

    def succeeded(self) -> None:
        """Stay with this exit."""

    def failed(self, error: BaseException) -> None:
        """An exit that leads nowhere is left."""
        if status_of(error) is not None or blame_of(error) is not None:
            self._renew()

    def judged(self, blame: Blame, why: str) -> None:
        """As `blocked`."""
        del blame
        self.blocked(why)

    def give_back(self) -> None:
        """Stay with this exit."""

    def _renew(self) -> None:
        self._tor.renew(self._session)
