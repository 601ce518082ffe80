"""The tools of plain handlers in a child process. Limiter, proxies and Tor are those of the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.handlers.kit import Kit
from longshore.scrape.http.client import Http, SyncAttemptHttp, SyncHttp
from longshore.worker.children.remote_tools import RemoteLimiter, RemoteProxies, RemoteSyncProxies, RemoteTor
from longshore.worker.children.rpc_client import RpcClient
from longshore.worker.kit.attempt_tools import AttemptTools
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.own_hosts import own_hosts
from longshore.worker.kit.tools import block_pages_of, new_browsers, new_http, robots_of

if TYPE_CHECKING:
    from longshore.scrape.browser import SyncAttemptBrowsers, SyncBrowsers


class ChildTools(AttemptTools):
    """The tools of plain handlers, in a child process."""

    def __init__(self, config: KitConfig, client: RpcClient) -> None:
        super().__init__(config, config.worker)
        self._config = config
        self._client = client
        self._limiter = RemoteLimiter(client)
        self._http: SyncHttp | None = None
        self._permits: Http
        self._browsers: SyncBrowsers | None = None

    def http(self, kit: Kit) -> SyncAttemptHttp:
        """As `SyncKit.http`."""
        if self._http is None:
            self._http = SyncHttp(self._new_http())
        return self._http.attempt(
            watch=self.trail(kit).watch,
            ends_at=kit.ends_at,
            robots=robots_of(kit),
            jar=kit.job.run,
            own=own_hosts(kit.job, self._is_submitted),
            block_pages=block_pages_of(kit),
        )

    def browser(self, kit: Kit) -> SyncAttemptBrowsers:
        """As `SyncKit.browser`."""
        if self._browsers is None:
            from longshore.scrape.browser import SyncBrowsers

            proxies = None if self._config.proxies.file is None else RemoteProxies(self._client)
            self._browsers = SyncBrowsers(new_browsers(self._config, self._limiter, proxies, self._plain_tor))
            # A second client, because this one is used in the browser's event loop.
            self._permits = self._new_http()
        own = own_hosts(kit.job, self._is_submitted)
        permit = self._permits.attempt(ends_at=kit.ends_at, robots=robots_of(kit), own=own).permit
        return self._browsers.attempt(
            permit=permit,
            watch=self.trail(kit).watch,
            ends_at=kit.ends_at,
            own=own,
            block_pages=block_pages_of(kit),
        )

    async def _is_submitted(self, run: str, host: str) -> bool:
        return bool(await self._client.call("is_submitted", run, host))

    async def _plain_tor(self) -> str:
        return str(await self._client.call("plain_tor"))

    def _new_http(self) -> Http:
        config = self._config
        proxies = RemoteProxies(self._client) if config.tor or config.proxies.file is not None else None
        return new_http(config, self._limiter, proxies, None)

    def tor(self, kit: Kit) -> RemoteTor:
        """As `SyncKit.tor`."""
        del kit
        return RemoteTor(self._client)

    def proxies(self, kit: Kit) -> RemoteSyncProxies:
        """As `SyncKit.proxies`."""
        del kit
        return RemoteSyncProxies(self._client)
