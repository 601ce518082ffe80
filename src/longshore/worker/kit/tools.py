"""The tools of a worker's handlers: made from its settings, each when it is first used, shared by all its attempts.

Async handlers use them in the worker's event loop (`WorkerTools`). Plain handlers use those of their child process
(`child_tools`), which ask the worker for what belongs to the whole worker: the limiter, the proxies, Tor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import ProcessingError, QueueError, SettingsError
from longshore.extensions.record_store import RefusedRecordsError
from longshore.handlers.kit import Kit
from longshore.job import Job
from longshore.outcome import Failed, Outcome
from longshore.pacing.contract import Limiter
from longshore.scrape.block_pages import BlockDetector, BlockPage, parse_block_pages
from longshore.scrape.http.client import AttemptHttp, Http
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.user_agent import user_agent
from longshore.scrape.proxies import ProxyPool, ProxySource
from longshore.scrape.proxies.status_file import ProxyStatusWriter
from longshore.scrape.records import Emitted
from longshore.scrape.tor import Bootstrap, Tor
from longshore.worker.children.guardian import MARK
from longshore.worker.kit.attempt_records import AttemptRecords
from longshore.worker.kit.attempt_tools import AttemptTools
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.own_hosts import IsSubmitted, own_hosts
from longshore.worker.kit.proxy_setup import ProxyWaitReporter, TorProxySource, proxy_pool
from longshore.worker.status.worker_figures import ToolFigures

if TYPE_CHECKING:
    from longshore.scrape.browser import AttemptBrowsers, Browsers

log = structlog.get_logger()

_POST_SECONDS = 2.0
_SLOW_BROWSER_SECONDS = 5.0
"""A browser that has been starting for this long keeps work waiting."""

_decode_emitted = msgspec.json.Decoder(Emitted | None).decode


class WorkerTools(AttemptTools):
    """The tools of async handlers, in the worker's event loop. Its child processes share some of them."""

    def __init__(
        self,
        config: KitConfig,
        worker: str,
        limiter: Limiter,
        clock: Clock,
        *,
        mark: str = "",
        tell: Callable[[str], None] | None = None,
        is_submitted: IsSubmitted | None = None,
    ) -> None:
        """`worker` is the worker's incarnation; its guardian finds the processes it started by `mark`.

        `tell` is called with a sentence when requests have to wait for a proxy, and when they go on. Without
        `is_submitted`, no run has submitted hosts.
        """
        super().__init__(config, worker.partition("/")[0])
        self.config = config
        self._clock = clock
        self.limiter = limiter
        self._tell = tell
        self.is_submitted = is_submitted or _never_submitted
        """As `RunHosts.is_submitted`."""
        self.proxy_waits = ProxyWaitReporter(tell)
        """Of the proxies in use now."""
        self._pool = proxy_pool(config.proxies, clock, self.proxy_waits)
        self._status_writer = ProxyStatusWriter(Path(config.folder) / "proxies", worker, clock)
        self._tor = Tor(
            Path(config.folder) / "tor",
            torrc=None if config.tor_config is None else Path(config.tor_config),
            environment={MARK: mark},
            on_progress=_tor_progress,
        )
        self.records = AttemptRecords(Path(config.folder), worker)
        self._http = self._new_http()
        self._replaced: list[Http | Browsers] = []
        self._browsers: Browsers | None = None
        self._recycled: Counter[str] = Counter()
        """Browsers that were replaced in child processes, and in `Browsers` that were replaced themselves."""

    async def start_tor(self) -> None:
        """Start Tor and wait until it is ready. Raises `TorError`."""
        await self._tor.start()

    def change(self, config: KitConfig) -> None:
        """Use the proxies of `config` from now on. Attempts under way keep the old ones.

        Raises `InputFileError` if the proxy file cannot be read, and `SettingsError` if none is named any more; then
        nothing has changed.
        """
        if config.proxies == self.config.proxies:
            return
        if config.proxies.file is None and self.config.proxies.file is not None:
            # An emptied or moved .env looks the same as one that removes the setting on purpose.
            raise SettingsError(
                f"proxy_file is no longer set (it was {self.config.proxies.file}), and without proxies all requests "
                "would go out from this machine's own address. To work without proxies, restart the worker"
            )
        waits = ProxyWaitReporter(self._tell)
        self._pool = proxy_pool(config.proxies, self._clock, waits)
        self.proxy_waits = waits
        self.config = msgspec.structs.replace(self.config, proxies=config.proxies)
        self._replaced.append(self._http)
        self._http = self._new_http()
        if self._browsers is not None:
            # Browsers keep the proxies that they were made with.
            self._browsers.retire("the proxies have changed")
            self._recycled.update(self._browsers.recycled)
            self._replaced.append(self._browsers)
            self._browsers = None

    async def post_proxies(self) -> None:
        """Write the health of the proxies to the file that `longshore proxies` reads, until cancelled."""
        while True:
            self._post_proxies()
            await self._clock.sleep(_POST_SECONDS)

    def _post_proxies(self) -> None:
        if self._pool is not None:
            self._status_writer.post(self._pool)

    def http(self, kit: Kit) -> AttemptHttp:
        """As `AsyncKit.http`."""
        return self._http.attempt(
            watch=self.trail(kit).watch,
            ends_at=kit.ends_at,
            robots=robots_of(kit),
            jar=kit.job.run,
            own=own_hosts(kit.job, self.is_submitted),
            block_pages=block_pages_of(kit),
        )

    def browser(self, kit: Kit) -> AttemptBrowsers:
        """As `AsyncKit.browser`."""
        if self._browsers is None:
            self._browsers = new_browsers(self.config, self.limiter, self._pool, self._tor.plain_proxy)
        own = own_hosts(kit.job, self.is_submitted)
        permit = self._http.attempt(ends_at=kit.ends_at, robots=robots_of(kit), own=own).permit
        return self._browsers.attempt(
            permit=permit,
            watch=self.trail(kit).watch,
            ends_at=kit.ends_at,
            own=own,
            block_pages=block_pages_of(kit),
        )

    def tor(self, kit: Kit) -> Tor:
        """As `AsyncKit.tor`."""
        del kit
        return self._tor

    def proxies(self, kit: Kit) -> ProxyPool:
        """As `AsyncKit.proxies`."""
        del kit
        return self._the_pool()

    def figures(self) -> ToolFigures:
        """Return the present figures of the tools."""
        waits: dict[str, str] = {}
        if (step := self._tor.bootstrapping) is not None:
            waits["tor"] = str(step)
        browsers, recycled, waited = 0, Counter(self._recycled), 0.0
        if self._browsers is not None:
            browsers, waited = len(self._browsers.pids), self._browsers.waited_seconds
            recycled.update(self._browsers.recycled)
        if waited > _SLOW_BROWSER_SECONDS:
            waits["browser"] = f"it has been starting for {waited:.0f} s"
        if self.proxy_waits.summary:
            waits["proxies"] = self.proxy_waits.summary
        return ToolFigures(
            waits=waits,
            proxies=None if self._pool is None else self._pool.totals(),
            browsers=browsers,
            recycled=recycled,
            records_kept=self.records.kept,
            records_rejected=self.records.rejected,
        )

    def proxy_source(self) -> ProxySource:
        """Return the source of proxies for child processes. Raises `ProcessingError` if there is none."""
        return TorProxySource(self._tor) if self.config.tor else self._the_pool()

    def own_tor(self) -> Tor:
        """Return the Tor of this worker, for child processes."""
        return self._tor

    def browser_recycled(self, reason: str, count: int) -> None:
        """Count browsers of a child process that were replaced."""
        self._recycled[reason] += count

    def ended(self, kit: Kit, outcome: Outcome | None, error: BaseException | None) -> None:
        """Keep the traces of an attempt in this process that is over."""
        if kit.trail is None and kit.emission is None and error is None and not isinstance(outcome, Failed):
            return
        if (emitted := self.finish(kit, outcome, error)) is not None:
            self.records.take(kit.job, emitted)

    def take_encoded(self, job: Job, records: msgspec.Raw) -> None:
        """Take the records of an attempt in a child process, as JSON."""
        if (emitted := _decode_emitted(records)) is not None:
            self.records.take(job, emitted)

    async def close(self) -> None:
        """Close all tools. If the last records cannot be marked, that is logged, not raised."""
        self._post_proxies()
        try:
            await self.records.close()
        except (OSError, QueueError, RefusedRecordsError) as error:
            log.warning("The last records could not be marked as settled; readers ask the queue", error=str(error))
        for client in (*self._replaced, self._http):
            await client.close()
        if self._browsers is not None:
            await self._browsers.close()
        await self._tor.close()

    def _the_pool(self) -> ProxyPool:
        if self._pool is None:
            raise ProcessingError("There are no proxies. Name a file of them: LONGSHORE_PROXY_FILE.", retryable=False)
        return self._pool

    def _new_http(self) -> Http:
        proxies: ProxySource | None = TorProxySource(self._tor) if self.config.tor else self._pool
        return new_http(self.config, self.limiter, proxies, self._clock)


def new_http(config: KitConfig, limiter: Limiter, proxies: ProxySource | None, clock: Clock | None) -> Http:
    """Return an HTTP client as `config` says."""
    cache = (
        PageCache(Path(config.folder) / "cache", ttl=timedelta(hours=config.cache_hours))
        if config.cache_hours
        else None
    )
    return Http(
        user_agent=config.user_agent or user_agent(config.contact),
        robots=config.robots,
        private_hosts=config.private_hosts,
        block_pages=parse_block_pages(config.block_pages),
        known_block_pages=config.known_block_pages,
        pace=limiter,
        proxies=proxies,
        cache=cache,
        transport=cast("Literal['aiohttp', 'curl']", config.transport),
        clock=clock,
    )


def new_browsers(
    config: KitConfig, limiter: Limiter, proxies: ProxySource | None, tor: Callable[[], Awaitable[str]]
) -> Browsers:
    """Return browsers as `config` says, started when first used."""
    from longshore.scrape.browser import Browsers, PageRecording

    return Browsers(
        cast("Literal['playwright', 'selenium']", config.browser),
        targets=config.targets_per_browser,
        blocked=config.browser_blocked,
        private_hosts=config.private_hosts,
        blocks=BlockDetector(parse_block_pages(config.block_pages), known=config.known_block_pages),
        user_agent=config.user_agent or None,
        proxies=None if config.tor else proxies,
        # Without a Tor session: a session for each host would need a browser for each host.
        current_proxy=tor if config.tor else None,
        pace=limiter,
        wants_picture=lambda _: config.bundles > 0,
        record=PageRecording.ALL
        if config.keep_pages
        else PageRecording.FAILED
        if config.bundles
        else PageRecording.NOTHING,
    )


def robots_of(kit: Kit) -> bool | None:
    """Return whether the handler wants robots.txt to be obeyed; None if it does not say."""
    return None if kit.handler is None else kit.handler.robots


def block_pages_of(kit: Kit) -> tuple[BlockPage, ...]:
    """Return the block pages that the handler declares."""
    return () if kit.handler is None else kit.handler.block_pages


async def _never_submitted(run: str, host: str) -> bool:
    del run, host
    return False


def _tor_progress(step: Bootstrap) -> None:
    log.info(f"Tor: {step}")
