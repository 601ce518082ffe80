"""The browser pool with fake browsers: when a browser is started, shared, retired and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from longshore.errors import CrashedError
from longshore.scrape.browser import browser_pool as pool_module
from longshore.scrape.browser.browser_pool import BrowserPool, Condition
from longshore.scrape.browser.driver import Opened
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import OwnHosts

GOOD, DOUBTFUL, BROKEN = Condition.GOOD, Condition.DOUBTFUL, Condition.BROKEN


class FakeTab:
    def __init__(self) -> None:
        self.must_close = False
        self.closed = asyncio.Event()
        self.hangs = False

    def allow(self, own: OwnHosts | None) -> None:
        return

    async def open(self, url: str, seconds: float) -> Opened:
        return Opened(url, 200)

    async def url(self) -> str:
        return ""

    async def html(self) -> str:
        return ""

    async def screenshot(self) -> bytes:
        return b""

    async def loaded(self) -> list[Exchange]:
        return []

    async def wait_for(self, selector: str, seconds: float) -> None:
        return

    async def do(self, function: Callable[[Any], Any]) -> Any:
        return function(self)

    async def close(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        self.closed.set()


class FakeBrowser:
    def __init__(self, pid: int, max_tabs: int) -> None:
        self.pid = pid
        self.max_tabs = max_tabs
        self.alive = True
        self.ended = False
        self.gives_tabs = True

    async def new_tab(self) -> FakeTab:
        if not self.gives_tabs:
            raise CrashedError("no tab")
        return FakeTab()

    async def new_fresh_tab(self) -> FakeTab:
        tab = FakeTab()
        tab.must_close = True
        return tab

    async def end(self) -> None:
        self.ended = True


class FakeLauncher:
    def __init__(self, max_tabs: int = 100) -> None:
        self.max_tabs = max_tabs
        self.browsers: list[FakeBrowser] = []
        self.closed = False
        self.fault: Exception | None = None
        self.second_started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self, proxy: str | None) -> FakeBrowser:
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.browsers.append(FakeBrowser(len(self.browsers), self.max_tabs))
        if len(self.browsers) == 2:
            self.second_started.set()
        return self.browsers[-1]

    async def close(self) -> None:
        self.closed = True


def make(launcher: FakeLauncher, *, targets: int = 100, measure: Callable[[int], int] = lambda _: 0) -> BrowserPool:
    return BrowserPool(launcher, targets=targets, growth=1000, measure=measure)


async def test_a_tab_is_used_again() -> None:
    pool = make(launcher := FakeLauncher())
    pooled, tab = await pool.take()
    pool.give_back(pooled, tab, GOOD)
    assert await pool.take() == (pooled, tab)
    assert len(launcher.browsers) == 1


async def test_pages_in_use_have_tabs_of_their_own_and_one_start_serves_all_who_wait() -> None:
    pool = make(launcher := FakeLauncher())
    taken = await asyncio.gather(*(pool.take() for _ in range(5)))
    assert len({id(tab) for _, tab in taken}) == 5
    assert len(launcher.browsers) == 1


async def test_a_browser_is_replaced_after_its_targets_and_ended_when_its_last_page_is_given_back() -> None:
    pool = make(launcher := FakeLauncher(), targets=2)
    slow = await pool.take()
    second = await pool.take()
    third = await pool.take()
    assert len(launcher.browsers) == 2
    pool.give_back(*second, GOOD)
    pool.give_back(*third, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [False, False]
    pool.give_back(*slow, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [True, False]


async def test_the_successor_is_ready_when_a_browser_has_served_its_targets() -> None:
    pool = make(launcher := FakeLauncher(), targets=20)
    for _ in range(9):
        pool.give_back(*await pool.take(), GOOD)
    assert len(launcher.browsers) == 1
    pool.give_back(*await pool.take(), GOOD)
    await launcher.second_started.wait()
    launcher.gate.clear()
    for _ in range(11):
        pooled, tab = await pool.take()
        pool.give_back(pooled, tab, GOOD)
    assert pooled.browser is launcher.browsers[1]
    assert len(launcher.browsers) == 2


async def test_a_successor_that_does_not_start_disturbs_nobody() -> None:
    pool = make(launcher := FakeLauncher(), targets=20)
    for number in range(19):
        if number == 5:
            launcher.fault = CrashedError("it did not start")
        pool.give_back(*await pool.take(), GOOD)
        await asyncio.sleep(0)
    launcher.fault = None
    await pool.take()
    await pool.take()
    assert len(launcher.browsers) == 2


async def test_a_browser_that_has_grown_is_replaced() -> None:
    weight = 5000
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def measure(_: int) -> int:
        loop.call_soon_threadsafe(looked.set)
        return weight

    pool = make(launcher := FakeLauncher(), measure=measure)
    pool.give_back(*await pool.take(), GOOD)
    await looked.wait()
    weight = 6001
    for _ in range(9):
        pool.give_back(*await pool.take(), GOOD)
    await pool.close()
    assert launcher.browsers[0].ended
    weight = 0
    launcher.browsers.clear()
    pool.give_back(*await pool.take(), GOOD)
    for _ in range(30):
        pool.give_back(*await pool.take(), GOOD)
    assert len(launcher.browsers) == 1


async def test_growth_retires_while_others_serve_on() -> None:
    weights = iter([5000, 6001])
    retired = asyncio.Event()
    loop = asyncio.get_running_loop()

    def measure(_: int) -> int:
        weight = next(weights)
        if weight > 6000:
            loop.call_soon_threadsafe(loop.call_later, 0, retired.set)
        return weight

    pool = make(launcher := FakeLauncher(), measure=measure)
    for _ in range(10):
        pool.give_back(*await pool.take(), GOOD)
        while pool._background:
            await asyncio.gather(*pool._background)
    await retired.wait()
    await pool.take()
    assert [browser.ended for browser in launcher.browsers] == [True, False]


async def test_a_broken_page_retires_its_browser_but_not_the_pages_beside_it() -> None:
    pool = make(launcher := FakeLauncher())
    broken, beside = await pool.take(), await pool.take()
    pool.give_back(*broken, BROKEN)
    await asyncio.sleep(0)
    assert not launcher.browsers[0].ended
    await pool.take()
    assert len(launcher.browsers) == 2
    pool.give_back(*beside, GOOD)
    await asyncio.sleep(0)
    assert launcher.browsers[0].ended


async def test_a_doubtful_or_worn_tab_is_closed_and_not_used_again() -> None:
    pool = make(launcher := FakeLauncher())
    pooled, tab = await pool.take()
    pool.give_back(pooled, tab, DOUBTFUL)
    _, fresh = await pool.take(fresh=True)
    pool.give_back(pooled, fresh, GOOD)
    assert (await pool.take())[1] not in (tab, fresh)
    await pool.close()
    assert isinstance(tab, FakeTab)
    assert tab.closed.is_set()
    assert len(launcher.browsers) == 1


async def test_a_tab_that_cannot_be_closed_retires_its_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_TAB_SECONDS", 0.0)
    pool = make(launcher := FakeLauncher())
    # A time limit of 0 still allows a fake tab: making it does not wait.
    pooled, tab = await pool.take()
    assert isinstance(tab, FakeTab)
    tab.hangs = True
    pool.give_back(pooled, tab, DOUBTFUL)
    await asyncio.gather(*pool._background)
    while pool._background:
        await asyncio.gather(*pool._background)
    assert launcher.browsers[0].ended


async def test_a_browser_with_room_for_one_serves_one() -> None:
    pool = make(launcher := FakeLauncher(max_tabs=1))
    first = await pool.take()
    await pool.take()
    assert len(launcher.browsers) == 2
    pool.give_back(*first, GOOD)
    await pool.take()
    assert len(launcher.browsers) == 2


async def test_a_browser_that_gives_no_tab_is_replaced_once_and_then_it_is_an_error() -> None:
    pool = make(launcher := FakeLauncher())
    pool.give_back(*await pool.take(fresh=True), GOOD)
    launcher.browsers[0].gives_tabs = False
    await pool.take()
    assert len(launcher.browsers) == 2


async def test_a_start_that_fails_is_told_to_all_who_wait_and_tried_again_by_the_next() -> None:
    pool = make(launcher := FakeLauncher())
    launcher.fault = CrashedError("it did not start")
    told = await asyncio.gather(pool.take(), pool.take(), return_exceptions=True)
    assert [str(each) for each in told] == ["it did not start"] * 2
    launcher.fault = None
    await pool.take()


async def test_who_stops_waiting_does_not_stop_the_start() -> None:
    pool = make(launcher := FakeLauncher())
    launcher.gate.clear()
    leaving, staying = asyncio.create_task(pool.take()), asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    launcher.gate.set()
    await staying
    assert len(launcher.browsers) == 1


async def test_a_tab_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.0)
    pool = make(launcher := FakeLauncher())
    pooled, tab = await pool.take()
    pool.give_back(pooled, tab, GOOD)
    assert isinstance(tab, FakeTab)
    await tab.closed.wait()
    assert (await pool.take())[1] is not tab
    assert len(launcher.browsers) == 1


async def test_browsers_that_are_retired_finish_their_pages_and_give_no_more() -> None:
    launcher = FakeLauncher()
    pool = BrowserPool(launcher, targets=100, growth=10**9)
    pooled, tab = await pool.take()
    pool.retire("the proxies have changed")
    other, later = await pool.take()
    assert other is not pooled
    assert [browser.ended for browser in launcher.browsers] == [False, False]
    pool.give_back(pooled, tab, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [True, False]
    pool.give_back(other, later, GOOD)
    await pool.close()


async def test_closing_ends_everything_and_a_later_page_begins_anew() -> None:
    pool = make(launcher := FakeLauncher())
    await pool.take()
    await pool.close()
    assert launcher.browsers[0].ended
    assert launcher.closed
    await pool.take()
    assert len(launcher.browsers) == 2


async def test_replaced_browsers_are_counted_by_reason_and_those_at_the_end_are_not() -> None:
    sizes = iter([100, 5000])
    pool = make(FakeLauncher(), targets=2, measure=lambda _: next(sizes, 0))
    for _ in range(2):
        pool.give_back(*await pool.take(), GOOD)
    pool.give_back(*await pool.take(), BROKEN)
    pool.give_back(*await pool.take(), GOOD)
    pool.retire("the proxies have changed")
    await pool.take()
    await pool.close()
    assert pool.recycled == {"pages": 1, "broken": 1, "other": 1}


async def test_a_page_that_waits_for_a_browser_is_known_until_it_has_started() -> None:
    pool = make(launcher := FakeLauncher())
    assert pool.waited_seconds == 0
    launcher.gate.clear()
    waiting = asyncio.create_task(pool.take())
    for _ in range(5):
        await asyncio.sleep(0)
    assert pool.waited_seconds > 0
    launcher.gate.set()
    await waiting
    assert pool.waited_seconds == 0
