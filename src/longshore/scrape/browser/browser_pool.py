"""The browser pool: it decides which browser a page comes from and when a browser is replaced.

The pool retires a browser that has opened its number of pages, whose memory has grown too much, or that broke. A
retired browser gives out no more tabs: the next page comes from a new browser, and the retired one ends when its last
tab in use is given back. So a slow page delays no other page.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import Enum, StrEnum

import structlog

from longshore.errors import CrashedError, WorkerError
from longshore.scrape.browser.driver import Browser, Launcher, Tab
from longshore.scrape.browser.processes import memory_of

_SUCCESSOR_AHEAD = 10
"""A browser's successor is started this many pages before the browser is replaced, so that no page waits for it."""
_MEASURE_EVERY = 10
"""Pages between two measurements of a browser's memory: each takes some milliseconds."""
_IDLE_SECONDS = 5.0
"""How long an unused tab stays open: the scripts of its last page keep running in it."""
_TAB_SECONDS = 10.0
"""How long a browser may take to open or close a tab. A browser that takes longer counts as hanging."""

log = structlog.get_logger()


class Condition(Enum):
    """The condition of a tab when it is given back."""

    GOOD = "may be used again"
    DOUBTFUL = "something may still run in it: the tab is closed"
    BROKEN = "it crashed or hangs: its browser is retired"


class Recycled(StrEnum):
    """Why a browser was retired, in a word."""

    PAGES = "pages"
    MEMORY = "memory"
    BROKEN = "broken"
    OTHER = "other"


class PooledBrowser:
    """A browser in the pool, with its idle tabs and counters."""

    def __init__(self, browser: Browser, proxy: str | None) -> None:
        self.browser = browser
        self.proxy = proxy
        self.idle: dict[Tab, asyncio.TimerHandle] = {}
        self.in_use = 0
        self.served = 0
        self.memory: int | None = None
        """Its memory in bytes after its first page."""
        self.retired: str | None = None
        """Why it gives out no more tabs; None while it does."""

    def idle_tab(self) -> Tab | None:
        """Remove and return the tab that was given back last; None if there is no idle tab."""
        if not self.idle:
            return None
        tab, timer = self.idle.popitem()
        timer.cancel()
        return tab


class BrowserPool:
    """The browsers of one process."""

    def __init__(
        self, launcher: Launcher, *, targets: int, growth: int, measure: Callable[[int], int] = memory_of
    ) -> None:
        self._launcher = launcher
        self._targets = targets
        self._growth = growth
        self._measure = measure
        self._pooled: list[PooledBrowser] = []
        self._starting: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self.recycled: Counter[Recycled] = Counter()
        """How many browsers were retired while the pool was open, by reason."""
        self._waiting = 0
        self._waiting_since = 0.0

    @property
    def pids(self) -> list[int]:
        """The root process id of each running browser."""
        return [pooled.browser.pid for pooled in self._pooled]

    @property
    def waited_seconds(self) -> float:
        """For how long pages have been waiting for a browser to start; 0 if none waits."""
        return asyncio.get_running_loop().time() - self._waiting_since if self._waiting else 0.0

    async def take(self, *, fresh: bool = False, proxy: str | None = None) -> tuple[PooledBrowser, Tab]:
        """Return a tab of a browser that goes through `proxy`, and start a browser if none has a free tab.

        The caller must give the tab back.
        """
        for last in (False, True):
            pooled = await self._available(proxy)
            pooled.in_use += 1
            pooled.served += 1
            tab = None if fresh else pooled.idle_tab()
            if pooled.served == self._targets - _SUCCESSOR_AHEAD and self._targets >= 2 * _SUCCESSOR_AHEAD:
                self._prepare_successor(pooled)
            if pooled.served >= self._targets:
                self._retire(pooled, f"it has opened {pooled.served} pages", Recycled.PAGES)
            try:
                return pooled, tab or await self._new_tab(pooled, fresh=fresh)
            except BaseException as error:
                self._retire(pooled, "it opened no tab", Recycled.BROKEN)
                self._release(pooled)
                # The browser died since its last use. The job is not to blame, so try once more with another browser.
                if last or not isinstance(error, WorkerError):
                    raise
        raise AssertionError

    def give_back(self, pooled: PooledBrowser, tab: Tab, condition: Condition) -> None:
        """Take a tab back. Never waits: slow work runs in the background."""
        if condition is Condition.BROKEN:
            self._retire(pooled, "a page in it crashed or hung", Recycled.BROKEN)
        if pooled.retired is None and (condition is Condition.DOUBTFUL or tab.must_close):
            self._run_in_background(self._close_tab(pooled, tab))
            return
        if pooled.retired is None:
            self._keep_idle(pooled, tab)
            if pooled.memory is None or pooled.served % _MEASURE_EVERY == 0:
                self._run_in_background(self._check_memory(pooled))
        self._release(pooled)

    def retire(self, why: str) -> None:
        """Retire all running browsers; each ends when its last tab is given back."""
        for pooled in list(self._pooled):
            self._retire(pooled, why)
            self._end_if_unused(pooled)

    def retire_others(self, proxy: str | None) -> None:
        """Retire the browsers that go through another proxy than `proxy`."""
        for pooled in [each for each in self._pooled if each.proxy != proxy]:
            self._retire(pooled, "another proxy replaced its own")
            self._end_if_unused(pooled)

    async def close(self) -> None:
        """End all browsers, even if some tabs were not given back. A later page starts a new browser."""
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        for pooled in list(self._pooled):
            self._retire(pooled, "the pool was closed", None)
            self._end(pooled)
        while self._background:
            # `_background_done` logs the errors.
            await asyncio.gather(*self._background, return_exceptions=True)
        await self._launcher.close()

    async def _available(self, proxy: str | None) -> PooledBrowser:
        while True:
            for pooled in list(self._pooled):
                if pooled.retired is None and not pooled.browser.alive:
                    self._retire(pooled, "it died", Recycled.BROKEN)
                    self._end_if_unused(pooled)
                if pooled.retired is None and pooled.proxy == proxy and pooled.in_use < pooled.browser.max_tabs:
                    return pooled
            if self._starting is None:
                self._starting = asyncio.create_task(self._start(proxy))
            if not self._waiting:
                self._waiting_since = asyncio.get_running_loop().time()
            self._waiting += 1
            try:
                # Shielded: other callers may wait for the same start, and a cancelled start would leave processes.
                await asyncio.shield(self._starting)
            finally:
                self._waiting -= 1

    def _prepare_successor(self, pooled: PooledBrowser) -> None:
        if self._starting is None and not any(
            other is not pooled
            and other.retired is None
            and other.proxy == pooled.proxy
            and other.in_use < other.browser.max_tabs
            for other in self._pooled
        ):
            self._starting = asyncio.create_task(self._start(pooled.proxy))
            self._run_in_background(self._first_tab(self._starting))

    async def _first_tab(self, starting: asyncio.Task[None]) -> None:
        await starting
        pooled = self._pooled[-1]
        pooled.in_use += 1
        try:
            tab = await self._new_tab(pooled, fresh=False)
            if pooled.retired is None:
                self._keep_idle(pooled, tab)
        finally:
            self._release(pooled)

    def _keep_idle(self, pooled: PooledBrowser, tab: Tab) -> None:
        pooled.idle[tab] = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._close_idle, pooled, tab)

    async def _start(self, proxy: str | None) -> None:
        try:
            self._pooled.append(PooledBrowser(await self._launcher.start(proxy), proxy))
        finally:
            self._starting = None

    async def _new_tab(self, pooled: PooledBrowser, *, fresh: bool) -> Tab:
        try:
            async with asyncio.timeout(_TAB_SECONDS):
                return await (pooled.browser.new_fresh_tab() if fresh else pooled.browser.new_tab())
        except TimeoutError:
            raise CrashedError(f"the browser hangs: it opened no tab within {_TAB_SECONDS:g} s") from None

    async def _close_tab(self, pooled: PooledBrowser, tab: Tab) -> None:
        try:
            async with asyncio.timeout(_TAB_SECONDS):
                await tab.close()
        except Exception as error:  # noqa: BLE001  any error is logged as the reason and ends with the browser
            self._retire(pooled, f"one of its tabs could not be closed ({type(error).__name__})", Recycled.BROKEN)
        finally:
            self._release(pooled)

    def _close_idle(self, pooled: PooledBrowser, tab: Tab) -> None:
        if pooled.retired is None and pooled.idle.pop(tab, None) is not None:
            pooled.in_use += 1
            self._run_in_background(self._close_tab(pooled, tab))

    async def _check_memory(self, pooled: PooledBrowser) -> None:
        memory = await asyncio.to_thread(self._measure, pooled.browser.pid)
        if pooled.memory is None:
            pooled.memory = memory
        elif memory - pooled.memory > self._growth and pooled.retired is None:
            grown = f"its memory grew by {(memory - pooled.memory) / 2**20:.0f} MB"
            self._retire(pooled, grown, Recycled.MEMORY)
            self._end_if_unused(pooled)

    def _retire(self, pooled: PooledBrowser, why: str, sort: Recycled | None = Recycled.OTHER) -> None:
        """Let the browser give out no more tabs. `sort` is None if it is not to be counted."""
        if pooled.retired is None:
            pooled.retired = why
            if sort is not None:
                self.recycled[sort] += 1
            log.debug("Browser retired", why=why, served=pooled.served, process=pooled.browser.pid)

    def _release(self, pooled: PooledBrowser) -> None:
        pooled.in_use -= 1
        self._end_if_unused(pooled)

    def _end_if_unused(self, pooled: PooledBrowser) -> None:
        if pooled.retired is not None and pooled.in_use == 0:
            self._end(pooled)

    def _end(self, pooled: PooledBrowser) -> None:
        if pooled in self._pooled:
            self._pooled.remove(pooled)
            while pooled.idle_tab() is not None:
                pass
            self._run_in_background(pooled.browser.end())

    def _run_in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Background work on a browser failed", exc_info=error)
