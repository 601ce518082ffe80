"""The keeper: which browser a page comes from, and when a browser has served long enough.

A browser that has served its targets, has grown, or broke is retired: it gives no more pages, the next one comes from a
new browser, and it is ended as soon as the pages still in use are given back. So a slow page holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum

import structlog

from longshore.errors import CrashedError, WorkerError
from longshore.scrape.browser.driver import Browser, Launcher, Tab
from longshore.scrape.browser.processes import memory_of

_AHEAD = 10
"""So many targets before a browser is replaced its successor is started, so that nobody waits for it."""
_WEIGH_EVERY = 10
"""Targets between two looks at a browser's memory: a look costs some milliseconds."""
_IDLE_SECONDS = 5.0
"""How long a tab that nobody uses stays open: what runs in it would go on, for nobody."""
_TAB_SECONDS = 10.0
"""How long a browser may take to open or close a tab. One that needs longer hangs."""

log = structlog.get_logger()


class Condition(Enum):
    """How a tab is when it is given back."""

    GOOD = "may be used again"
    DOUBTFUL = "something may still be going on in it: it is closed"
    BROKEN = "it crashed or hangs: its browser is retired"


class PooledBrowser:
    """A browser and what is known of it."""

    def __init__(self, browser: Browser, proxy: str | None) -> None:
        self.browser = browser
        self.proxy = proxy
        self.idle: dict[Tab, asyncio.TimerHandle] = {}
        self.in_use = 0
        self.served = 0
        self.weight: int | None = None
        """Bytes in memory after its first target."""
        self.retired: str | None = None
        """Why it gives no more pages."""

    def idle_tab(self) -> Tab | None:
        """The tab that was last given back, to be used again."""
        if not self.idle:
            return None
        tab, timer = self.idle.popitem()
        timer.cancel()
        return tab


class BrowserPool:
    """Keeps the browsers of one process."""

    def __init__(
        self, launcher: Launcher, *, targets: int, growth: int, weigh: Callable[[int], int] = memory_of
    ) -> None:
        self._launcher = launcher
        self._targets = targets
        self._growth = growth
        self._weigh = weigh
        self._kept: list[PooledBrowser] = []
        self._starting: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def pids(self) -> list[int]:
        """The first process of each browser that runs."""
        return [kept.browser.pid for kept in self._kept]

    async def take(self, *, fresh: bool = False, proxy: str | None = None) -> tuple[PooledBrowser, Tab]:
        """A tab, in a browser that has room for it and goes through the proxy; one is started where there is none.

        Give it back.
        """
        for last in (False, True):
            kept = await self._with_room(proxy)
            kept.in_use += 1
            kept.served += 1
            tab = None if fresh else kept.idle_tab()
            if kept.served == self._targets - _AHEAD and self._targets >= 2 * _AHEAD:
                self._prepare_successor(kept)
            if kept.served >= self._targets:
                self._retire(kept, f"it has served {kept.served} targets")
            try:
                return kept, tab or await self._new_tab(kept, fresh=fresh)
            except BaseException as error:
                self._retire(kept, "it gives no tab")
                self._left(kept)
                # It died since it was last used: nobody's failure, unless it happens twice.
                if last or not isinstance(error, WorkerError):
                    raise
        raise AssertionError

    def give_back(self, kept: PooledBrowser, tab: Tab, condition: Condition) -> None:
        """The tab is not needed any more. Never waits: what takes time is done beside."""
        if condition is Condition.BROKEN:
            self._retire(kept, "a page in it crashed or hung")
        if kept.retired is None and (condition is Condition.DOUBTFUL or tab.worn):
            self._do(self._close_tab(kept, tab))
            return
        if kept.retired is None:
            self._put_aside(kept, tab)
            if kept.weight is None or kept.served % _WEIGH_EVERY == 0:
                self._do(self._look(kept))
        self._left(kept)

    def retire(self, why: str) -> None:
        """Give no more pages of the browsers there are. Each is ended when its last page is given back."""
        for kept in list(self._kept):
            self._retire(kept, why)
            self._end_if_left(kept)

    def retire_others(self, proxy: str | None) -> None:
        """The same for those that go through another proxy than this."""
        for kept in [each for each in self._kept if each.proxy != proxy]:
            self._retire(kept, "another proxy serves in the place of its own")
            self._end_if_left(kept)

    async def close(self) -> None:
        """End every browser, whether or not its pages were given back. A later page starts a new one."""
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        for kept in list(self._kept):
            self._retire(kept, "the worker is done with it")
            self._end(kept)
        while self._beside:
            # What went wrong has been noted by then.
            await asyncio.gather(*self._beside, return_exceptions=True)
        await self._launcher.close()

    async def _with_room(self, proxy: str | None) -> PooledBrowser:
        while True:
            for kept in list(self._kept):
                if kept.retired is None and not kept.browser.alive:
                    self._retire(kept, "it died")
                    self._end_if_left(kept)
                if kept.retired is None and kept.proxy == proxy and kept.in_use < kept.browser.room:
                    return kept
            if self._starting is None:
                self._starting = asyncio.create_task(self._start(proxy))
            # Not ended with whoever waits for it: others may wait too, and half a start leaves processes behind.
            await asyncio.shield(self._starting)

    def _prepare_successor(self, kept: PooledBrowser) -> None:
        if self._starting is None and not any(
            other is not kept
            and other.retired is None
            and other.proxy == kept.proxy
            and other.in_use < other.browser.room
            for other in self._kept
        ):
            self._starting = asyncio.create_task(self._start(kept.proxy))
            self._do(self._first_tab(self._starting))

    async def _first_tab(self, starting: asyncio.Task[None]) -> None:
        await starting
        kept = self._kept[-1]
        kept.in_use += 1
        try:
            tab = await self._new_tab(kept, fresh=False)
            if kept.retired is None:
                self._put_aside(kept, tab)
        finally:
            self._left(kept)

    def _put_aside(self, kept: PooledBrowser, tab: Tab) -> None:
        kept.idle[tab] = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._tidy, kept, tab)

    async def _start(self, proxy: str | None) -> None:
        try:
            self._kept.append(PooledBrowser(await self._launcher.start(proxy), proxy))
        finally:
            self._starting = None

    async def _new_tab(self, kept: PooledBrowser, *, fresh: bool) -> Tab:
        try:
            async with asyncio.timeout(_TAB_SECONDS):
                return await (kept.browser.new_fresh_tab() if fresh else kept.browser.new_tab())
        except TimeoutError:
            raise CrashedError(f"the browser hangs: it opened no tab within {_TAB_SECONDS:g} s") from None

    async def _close_tab(self, kept: PooledBrowser, tab: Tab) -> None:
        try:
            async with asyncio.timeout(_TAB_SECONDS):
                await tab.close()
        except Exception as error:  # noqa: BLE001  whatever it is, it is noted, and ends with the browser
            self._retire(kept, f"a tab of it cannot be closed ({type(error).__name__})")
        finally:
            self._left(kept)

    def _tidy(self, kept: PooledBrowser, tab: Tab) -> None:
        if kept.retired is None and kept.idle.pop(tab, None) is not None:
            kept.in_use += 1
            self._do(self._close_tab(kept, tab))

    async def _look(self, kept: PooledBrowser) -> None:
        weight = await asyncio.to_thread(self._weigh, kept.browser.pid)
        if kept.weight is None:
            kept.weight = weight
        elif weight - kept.weight > self._growth and kept.retired is None:
            self._retire(kept, f"its memory grew by {(weight - kept.weight) / 2**20:.0f} MB")
            self._end_if_left(kept)

    def _retire(self, kept: PooledBrowser, why: str) -> None:
        if kept.retired is None:
            kept.retired = why
            log.debug("Browser retired", why=why, served=kept.served, process=kept.browser.pid)

    def _left(self, kept: PooledBrowser) -> None:
        kept.in_use -= 1
        self._end_if_left(kept)

    def _end_if_left(self, kept: PooledBrowser) -> None:
        if kept.retired is not None and kept.in_use == 0:
            self._end(kept)

    def _end(self, kept: PooledBrowser) -> None:
        if kept in self._kept:
            self._kept.remove(kept)
            while kept.idle_tab() is not None:
                pass
            self._do(kept.browser.end())

    def _do(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A browser could not be looked after", exc_info=error)
