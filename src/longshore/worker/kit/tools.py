"""The tools of a worker's handlers: made of its settings, each when it is first used, shared by all its attempts.

Async handlers use them in the worker's event loop (`WorkerTools`). Plain ones use those of their child process
(`ChildTools`), which ask the worker for what belongs to all of it: the pace, the proxies, Tor.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import msgspec
import structlog

from longshore.clock import Clock
from longshore.errors import ProcessingError, QueueError, SettingsError, SnoozeError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import Kit
from longshore.job import Job
from longshore.outcome import Completed, Failed, Outcome
from longshore.pacing.contract import Limiter
from longshore.scrape.capture.failure_bundles import FailureBundles
from longshore.scrape.capture.failure_signature import signature_of
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.capture.trail import Trail
from longshore.scrape.http.client import AttemptHttp, Http, SyncAttemptHttp, SyncHttp
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.user_agent import user_agent
from longshore.scrape.proxies import ProxyPool, ProxySource
from longshore.scrape.proxies.status_file import ProxyStatusWriter
from longshore.scrape.records import Emission, Emitted
from longshore.scrape.tor import Bootstrap, Tor
from longshore.worker.children.child_rpc import ChildTor, RemoteLimiter, RemoteProxies, SyncProxies, WorkerConnection
from longshore.worker.children.guardian import MARK
from longshore.worker.kit.attempt_records import AttemptRecords
from longshore.worker.kit.config import KitConfig
from longshore.worker.kit.proxy_setup import ProxyWaitReporter, TorProxySource, proxy_pool

if TYPE_CHECKING:
    from longshore.scrape.browser import AttemptBrowsers, Browsers, SyncAttemptBrowsers, SyncBrowsers

log = structlog.get_logger()

_NUMBER = re.compile(r"\d+(\.\d+)?")
_SAY_AGAIN_SECONDS = 60.0
_POST_SECONDS = 2.0

_decode_emitted = msgspec.json.Decoder(Emitted | None).decode


class AttemptTools:
    """What attempts leave behind, wherever they are made: records, pages, failure bundles."""

    def __init__(self, config: KitConfig, worker: str) -> None:
        folder = Path(config.folder)
        self._said: dict[str, float] = {}
        self._pages = PageStore(folder / "pages") if config.keep_pages else None
        self._bundles = (
            FailureBundles(folder / "bundles", each=config.bundles, worker=worker, settings=config.settings)
            if config.bundles
            else None
        )

    def trail(self, kit: Kit) -> Trail:
        """The trail of an attempt."""
        if kit.trail is None:
            kit.trail = Trail(None if self._pages is None else self._pages.attempt(kit.job))
        return kit.trail

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        """As `Kit.emit`."""
        if kit.emission is None:
            handler = kit.handler
            kit.emission = Emission() if handler is None else Emission(handler.emits, handler.keep)
        return kit.emission.emit(record, kind)

    def over(self, kit: Kit, outcome: Outcome | None, error: BaseException | None) -> Emitted | None:
        """The attempt is over: keep what is to be kept of it. What it emitted, if it counts."""
        if isinstance(error, SnoozeError):
            self._say_why(error)
        elif isinstance(outcome, Failed) and kit.handler is not None:
            self.failed(kit.job, kit.handler, outcome, error, kit.trail)
        if kit.trail is not None:
            try:
                kit.trail.close()
            except OSError as fault:
                log.warning("The pages of this job could not be kept", error=str(fault))
            except Exception:
                # What is kept for later must never cost the job, or the worker and all it holds.
                log.exception("The pages of this job could not be kept")
        if kit.emission is None or not isinstance(outcome, Completed):
            return None
        return kit.emission.emitted()

    def _say_why(self, error: SnoozeError) -> None:
        """Say why a job comes back later; of many that do for one reason, now and then."""
        reason, now = _NUMBER.sub("", str(error)), time.monotonic()
        if now - self._said.get(reason, -_SAY_AGAIN_SECONDS) >= _SAY_AGAIN_SECONDS:
            if len(self._said) > 1000:
                self._said.clear()
            self._said[reason] = now
            log.info(f"Later: {error}")

    def failed(
        self, job: Job, handler: Handler, outcome: Failed, error: BaseException | None, trail: Trail | None = None
    ) -> None:
        """An attempt failed: keep a bundle of it, unless there are enough of its kind."""
        if self._bundles is None:
            return
        if trail is not None and error is not None:
            from longshore.scrape.browser import picture_of

            if (picture := picture_of(error)) is not None:
                trail.screenshot = picture.screenshot
        signature = signature_of(outcome.failure, handler.function, error)
        try:
            place = self._bundles.keep(job, outcome.failure, signature, trail)
        except OSError as fault:
            log.warning("No bundle of this failure could be kept", error=str(fault))
            return
        except Exception:
            # As above: the failure itself is worth more than the bundle of it.
            log.exception("No bundle of this failure could be kept")
            return
        if place is not None:
            code = getattr(handler.function, "__code__", None)
            file = "FILE" if code is None else os.path.relpath(code.co_filename)
            log.info(f"Kept this failure: longshore replay {shlex.join((str(place), file))}", place=signature.place)


class WorkerTools(AttemptTools):
    """What async handlers use, in the worker's event loop; and what its child processes share of it."""

    def __init__(
        self,
        config: KitConfig,
        worker: str,
        pace: Limiter,
        clock: Clock,
        *,
        mark: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`worker` is the worker's incarnation; by `mark` its guardian finds what it started.

        `tell` is told, in words, of what keeps requests waiting.
        """
        super().__init__(config, worker.partition("/")[0])
        self.config = config
        self._clock = clock
        self.pace = pace
        self._tell = tell
        self.proxy_news = ProxyWaitReporter(tell)
        """Of the proxies that requests go through now."""
        self._pool = proxy_pool(config.proxies, clock, self.proxy_news)
        self._poster = ProxyStatusWriter(Path(config.folder) / "proxies", worker, clock)
        self._tor = Tor(
            Path(config.folder) / "tor",
            torrc=None if config.tor_config is None else Path(config.tor_config),
            environment={MARK: mark},
            on_progress=_tor_progress,
        )
        self.records = AttemptRecords(Path(config.folder), worker)
        self._http = self._new_http()
        self._left: list[Http | Browsers] = []
        self._browsers: Browsers | None = None

    async def start_tor(self) -> None:
        """See to it that Tor runs before the first attempt. Raises `TorError`."""
        await self._tor.start()

    def change(self, config: KitConfig) -> None:
        """Take on what may change while a worker runs: its proxies. What is under way goes on as it began.

        Raises `InputFileError` where their file cannot be read, and `SettingsError` where none is named any more; then
        nothing has changed.
        """
        if config.proxies == self.config.proxies:
            return
        if config.proxies.file is None and self.config.proxies.file is not None:
            # A .env that was emptied or moved away looks the same as one that says so on purpose.
            raise SettingsError(
                f"no proxy file is named any more, in place of {self.config.proxies.file}, and without one all would "
                "go out from this machine's own address. To work without proxies, start the worker anew"
            )
        news = ProxyWaitReporter(self._tell)
        self._pool = proxy_pool(config.proxies, self._clock, news)
        self.proxy_news = news
        self.config = msgspec.structs.replace(self.config, proxies=config.proxies)
        self._left.append(self._http)
        self._http = self._new_http()
        if self._browsers is not None:
            # They know the proxies that they were made with.
            self._browsers.retire("the proxies have changed")
            self._left.append(self._browsers)
            self._browsers = None

    async def post_proxies(self) -> None:
        """Keep what is known of the proxies where `longshore proxies` finds it, until cancelled."""
        while True:
            self._post_proxies()
            await self._clock.sleep(_POST_SECONDS)

    def _post_proxies(self) -> None:
        if self._pool is not None:
            self._poster.post(self._pool)

    def http(self, kit: Kit) -> AttemptHttp:
        """As `AsyncKit.http`."""
        return self._http.attempt(watch=self.trail(kit).watch, ends_at=kit.ends_at, robots=_robots(kit))

    def browser(self, kit: Kit) -> AttemptBrowsers:
        """As `AsyncKit.browser`."""
        if self._browsers is None:
            self._browsers = _browsers(self.config, self.pace, self._pool, self._tor.plain_proxy)
        permit = self._http.attempt(ends_at=kit.ends_at, robots=_robots(kit)).permit
        return self._browsers.attempt(permit=permit, watch=self.trail(kit).watch, ends_at=kit.ends_at)

    def tor(self, kit: Kit) -> Tor:
        """As `AsyncKit.tor`."""
        del kit
        return self._tor

    def proxies(self, kit: Kit) -> ProxyPool:
        """As `AsyncKit.proxies`."""
        del kit
        return self._the_pool()

    def turns(self) -> ProxySource:
        """What child processes take their turns with."""
        return TorProxySource(self._tor) if self.config.tor else self._the_pool()

    def own_tor(self) -> Tor:
        """What child processes go through."""
        return self._tor

    def ended(self, kit: Kit, outcome: Outcome | None, error: BaseException | None) -> None:
        """An attempt in this process is over."""
        if kit.trail is None and kit.emission is None and error is None and not isinstance(outcome, Failed):
            return
        self.take(kit.job, self.over(kit, outcome, error))

    def take_encoded(self, job: Job, records: msgspec.Raw) -> None:
        """Take what an attempt in a child process emitted."""
        if records != b"null":
            self.take(job, _decode_emitted(records))

    def take(self, job: Job, emitted: Emitted | None) -> None:
        """Take what an attempt emitted. It is kept before its settlement is sent."""
        if emitted is not None:
            self.records.take(job, emitted)

    async def close(self) -> None:
        """End everything. Raises nothing for what could not be written at the last moment; it is said."""
        self._post_proxies()
        try:
            await self.records.close()
        except (OSError, QueueError) as error:
            log.warning("The last records could not be marked as settled; readers ask the queue", error=str(error))
        for left in (*self._left, self._http):
            await left.close()
        if self._browsers is not None:
            await self._browsers.close()
        await self._tor.close()

    def _the_pool(self) -> ProxyPool:
        if self._pool is None:
            raise ProcessingError("There are no proxies. Name a file of them: LONGSHORE_PROXY_FILE.", retryable=False)
        return self._pool

    def _new_http(self) -> Http:
        turns: ProxySource | None = TorProxySource(self._tor) if self.config.tor else self._pool
        return _http(self.config, self.pace, turns, self._clock)


class ChildTools(AttemptTools):
    """What plain handlers use, in a child process."""

    def __init__(self, config: KitConfig, line: WorkerConnection) -> None:
        super().__init__(config, config.worker)
        self._config = config
        self._line = line
        self._pace = RemoteLimiter(line)
        self._http: SyncHttp | None = None
        self._permits: Http
        self._browsers: SyncBrowsers | None = None

    def http(self, kit: Kit) -> SyncAttemptHttp:
        """As `SyncKit.http`."""
        if self._http is None:
            self._http = SyncHttp(self._new_http())
        return self._http.attempt(watch=self.trail(kit).watch, ends_at=kit.ends_at, robots=_robots(kit))

    def browser(self, kit: Kit) -> SyncAttemptBrowsers:
        """As `SyncKit.browser`."""
        if self._browsers is None:
            from longshore.scrape.browser import SyncBrowsers

            turns = None if self._config.proxies.file is None else RemoteProxies(self._line)
            self._browsers = SyncBrowsers(_browsers(self._config, self._pace, turns, self._plain_tor))
            # One of its own: this one is used in the browser's event loop.
            self._permits = self._new_http()
        permit = self._permits.attempt(ends_at=kit.ends_at, robots=_robots(kit)).permit
        return self._browsers.attempt(permit=permit, watch=self.trail(kit).watch, ends_at=kit.ends_at)

    async def _plain_tor(self) -> str:
        return str(await self._line.call("plain_tor"))

    def _new_http(self) -> Http:
        config = self._config
        turns = RemoteProxies(self._line) if config.tor or config.proxies.file is not None else None
        return _http(config, self._pace, turns, None)

    def tor(self, kit: Kit) -> ChildTor:
        """As `SyncKit.tor`."""
        del kit
        return ChildTor(self._line)

    def proxies(self, kit: Kit) -> SyncProxies:
        """As `SyncKit.proxies`."""
        del kit
        return SyncProxies(self._line)


def _http(config: KitConfig, pace: Limiter, turns: ProxySource | None, clock: Clock | None) -> Http:
    cache = (
        PageCache(Path(config.folder) / "cache", ttl=timedelta(hours=config.cache_hours))
        if config.cache_hours
        else None
    )
    return Http(
        user_agent=config.user_agent or user_agent(config.contact),
        robots=config.robots,
        pace=pace,
        proxies=turns,
        cache=cache,
        transport=cast("Literal['aiohttp', 'curl']", config.transport),
        clock=clock,
    )


def _browsers(
    config: KitConfig, pace: Limiter, turns: ProxySource | None, tor: Callable[[], Awaitable[str]]
) -> Browsers:
    from longshore.scrape.browser import Browsers

    return Browsers(
        cast("Literal['playwright', 'selenium']", config.browser),
        targets=config.targets_per_browser,
        blocked=config.browser_blocked,
        user_agent=config.user_agent or None,
        proxies=None if config.tor else turns,
        # Without a session: one for each host would be a browser for each host.
        current_proxy=tor if config.tor else None,
        pace=pace,
        wants_picture=lambda _: config.bundles > 0,
    )


def _robots(kit: Kit) -> bool | None:
    return None if kit.handler is None else kit.handler.robots


def _tor_progress(step: Bootstrap) -> None:
    log.info(f"Tor: {step}")
