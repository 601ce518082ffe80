"""The kit of a person: the tools that a worker gives to its handlers, for a prompt, a look or a source of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
import structlog

from longshore.clock import SystemClock
from longshore.errors import ProcessingError
from longshore.handlers.kit import Kit, SyncKit
from longshore.job import Job, State, new_job
from longshore.lease import WorkerId
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store_machine import MachineRateStore, cache_file
from longshore.scrape.http.client import SyncAttemptHttp
from longshore.scrape.proxies import ProxySource
from longshore.scrape.tor import Tor
from longshore.settings import Settings
from longshore.system.loop_thread import LoopThread
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.own_hosts import own_hosts
from longshore.worker.kit.proxy_setup import TorProxySource, check_tools, proxy_pool
from longshore.worker.kit.rate_policy import rate_policy
from longshore.worker.kit.tools import new_browsers, new_http

if TYPE_CHECKING:
    from longshore.scrape.browser import Browsers, SyncAttemptBrowsers


@contextmanager
def own_kit(settings: Settings, url: str) -> Iterator[SyncKit]:
    """Yield a kit that goes out as the settings say: robots.txt, pace, proxies or Tor, cookies, transport, cache.

    `url` is what it is for: its host may be on a private network. The rate of each host is that of this machine.
    """
    check_tools(settings)
    tools = OwnTools(settings)
    try:
        yield SyncKit(structlog.get_logger(), tools, _job(url))
    finally:
        tools.close()


class OwnTools:
    """The tools behind the kit of a person. They live on an event loop of their own, so that no call needs `await`."""

    def __init__(self, settings: Settings) -> None:
        # No traces are left behind: there is no job that they belong to.
        self._config = msgspec.structs.replace(
            KitConfig.of(settings, WorkerId.new("prompt")), keep_pages=False, bundles=0
        )
        clock = SystemClock()
        self._store = MachineRateStore(cache_file(), clock)
        self._limiter = LearnedLimiter(self._store, clock, policy=rate_policy(self._config))
        torrc = None if self._config.tor_config is None else Path(self._config.tor_config)
        self._tor = Tor(Path(self._config.folder) / "tor", torrc=torrc)
        self._pool = proxy_pool(self._config.proxies, clock)
        proxies: ProxySource | None = TorProxySource(self._tor) if self._config.tor else self._pool
        self._http = new_http(self._config, self._limiter, proxies, clock)
        self._browsers: Browsers | None = None
        self._thread = LoopThread("longshore-kit")
        self.records: list[tuple[str, object]] = []
        """The emitted records with their kinds."""

    def http(self, kit: Kit) -> SyncAttemptHttp:
        """As `SyncKit.http`."""
        attempt = self._http.attempt(jar=kit.job.run, own=own_hosts(kit.job, _is_submitted))
        return SyncAttemptHttp(attempt, self._thread.call)

    def browser(self, kit: Kit) -> SyncAttemptBrowsers:
        """As `SyncKit.browser`."""
        from longshore.scrape.browser.sync_browsers import SyncAttemptBrowsers

        if self._browsers is None:
            self._browsers = new_browsers(self._config, self._limiter, self._pool, self._tor.plain_proxy)
        own = own_hosts(kit.job, _is_submitted)
        pages = self._browsers.attempt(permit=self._http.attempt(own=own).permit, own=own)
        return SyncAttemptBrowsers(pages, lambda: self._thread)

    def tor(self, kit: Kit) -> NoReturn:
        """Raise `ProcessingError`: sessions of Tor belong to a worker."""
        del kit
        raise ProcessingError("There is no kit.tor here; `longshore work FILE` has one.", retryable=False)

    def proxies(self, kit: Kit) -> NoReturn:
        """Raise `ProcessingError`: `kit.http` uses the proxies by itself."""
        del kit
        raise ProcessingError("There is no kit.proxies here; `kit.http` uses them by itself.", retryable=False)

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """Add the record to the list."""
        del kit
        self.records.append((kind, record))
        return True

    def close(self) -> None:
        """Close all tools."""
        self._thread.call(self._close())
        self._thread.close()

    async def _close(self) -> None:
        if self._browsers is not None:
            await self._browsers.close()
        await self._http.close()
        await self._limiter.close()
        self._store.close()
        await self._tor.close()


def _job(url: str) -> Job:
    new = new_job("prompt", {"url": url}, run="prompt")
    return Job(id="0", run=new.run, kind=new.kind, key=new.key, payload=new.payload, host=new.host, state=State.CLAIMED)


async def _is_submitted(run: str, host: str) -> bool:
    del run, host
    return False
