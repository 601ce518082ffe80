"""When a browser is started, shared, retired and ended; with browsers that are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from longshore.errors import CrashedError
from longshore.scrape.browser import browser_pool as keeper_module
from longshore.scrape.browser.browser_pool import BrowserPool, Condition
from longshore.scrape.browser.driver import Opened

GOOD, DOUBTFUL, BROKEN = Condition.GOOD, Condition.DOUBTFUL, Condition.BROKEN


class FakeTab:
    def __init__(self) -> None:
        self.worn = False
        self.closed = asyncio.Event()
        self.hangs = False

    async def open(self, url: str, seconds: float) -> Opened:
        return Opened(url, 200)

    async def url(self) -> str:
        return ""

    async def html(self) -> str:
        return ""

    async def screenshot(self) -> bytes:
        return b""

    async def wait_for(self, selector: str, seconds: float) -> None:
        return

    async def do(self, function: Callable[[Any], Any]) -> Any:
        return function(self)

    async def close(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        self.closed.set()


class FakeBrowser:
    def __init__(self, pid: int, room: int) -> None:
        self.pid = pid
        self.room = room
        self.alive = True
        self.ended = False
        self.gives_tabs = True

    async def new_tab(self) -> FakeTab:
        if not self.gives_tabs:
            raise CrashedError("no tab")
        return FakeTab()

    async def new_fresh_tab(self) -> FakeTab:
        tab = FakeTab()
        tab.worn = True
        return tab

    async def end(self) -> None:
        self.ended = True


class FakeLauncher:
    def __init__(self, room: int = 100) -> None:
        self.room = room
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
        self.browsers.append(FakeBrowser(len(self.browsers), self.room))
        if len(self.browsers) == 2:
            self.second_started.set()
        return self.browsers[-1]

    async def close(self) -> None:
        self.closed = True


def make(launcher: FakeLauncher, *, targets: int = 100, weigh: Callable[[int], int] = lambda _: 0) -> BrowserPool:
    return BrowserPool(launcher, targets=targets, growth=1000, weigh=weigh)


async def test_a_tab_is_used_again() -> None:
    keeper = make(launcher := FakeLauncher())
    kept, tab = await keeper.take()
    keeper.give_back(kept, tab, GOOD)
    assert await keeper.take() == (kept, tab)
    assert len(launcher.browsers) == 1


async def test_pages_in_use_have_tabs_of_their_own_and_one_start_serves_all_who_wait() -> None:
    keeper = make(launcher := FakeLauncher())
    taken = await asyncio.gather(*(keeper.take() for _ in range(5)))
    assert len({id(tab) for _, tab in taken}) == 5
    assert len(launcher.browsers) == 1


async def test_a_browser_is_replaced_after_its_targets_and_ended_when_its_last_page_is_given_back() -> None:
    keeper = make(launcher := FakeLauncher(), targets=2)
    slow = await keeper.take()
    second = await keeper.take()
    third = await keeper.take()
    assert len(launcher.browsers) == 2
    keeper.give_back(*second, GOOD)
    keeper.give_back(*third, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [False, False]
    keeper.give_back(*slow, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [True, False]


async def test_the_successor_is_ready_when_a_browser_has_served_its_targets() -> None:
    keeper = make(launcher := FakeLauncher(), targets=20)
    for _ in range(9):
        keeper.give_back(*await keeper.take(), GOOD)
    assert len(launcher.browsers) == 1
    keeper.give_back(*await keeper.take(), GOOD)
    await launcher.second_started.wait()
    launcher.gate.clear()
    for _ in range(11):
        kept, tab = await keeper.take()
        keeper.give_back(kept, tab, GOOD)
    assert kept.browser is launcher.browsers[1]
    assert len(launcher.browsers) == 2


async def test_a_successor_that_does_not_start_disturbs_nobody() -> None:
    keeper = make(launcher := FakeLauncher(), targets=20)
    for number in range(19):
        if number == 5:
            launcher.fault = CrashedError("it did not start")
        keeper.give_back(*await keeper.take(), GOOD)
        await asyncio.sleep(0)
    launcher.fault = None
    await keeper.take()
    await keeper.take()
    assert len(launcher.browsers) == 2


async def test_a_browser_that_has_grown_is_replaced() -> None:
    weight = 5000
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def weigh(_: int) -> int:
        loop.call_soon_threadsafe(looked.set)
        return weight

    keeper = make(launcher := FakeLauncher(), weigh=weigh)
    keeper.give_back(*await keeper.take(), GOOD)
    await looked.wait()
    weight = 6001
    for _ in range(9):
        keeper.give_back(*await keeper.take(), GOOD)
    await keeper.close()
    assert launcher.browsers[0].ended
    weight = 0
    launcher.browsers.clear()
    keeper.give_back(*await keeper.take(), GOOD)
    for _ in range(30):
        keeper.give_back(*await keeper.take(), GOOD)
    assert len(launcher.browsers) == 1


async def test_growth_retires_while_others_serve_on() -> None:
    weights = iter([5000, 6001])
    retired = asyncio.Event()
    loop = asyncio.get_running_loop()

    def weigh(_: int) -> int:
        weight = next(weights)
        if weight > 6000:
            loop.call_soon_threadsafe(loop.call_later, 0, retired.set)
        return weight

    keeper = make(launcher := FakeLauncher(), weigh=weigh)
    for _ in range(10):
        keeper.give_back(*await keeper.take(), GOOD)
        while keeper._beside:
            await asyncio.gather(*keeper._beside)
    await retired.wait()
    await keeper.take()
    assert [browser.ended for browser in launcher.browsers] == [True, False]


async def test_a_broken_page_retires_its_browser_but_not_the_pages_beside_it() -> None:
    keeper = make(launcher := FakeLauncher())
    broken, beside = await keeper.take(), await keeper.take()
    keeper.give_back(*broken, BROKEN)
    await asyncio.sleep(0)
    assert not launcher.browsers[0].ended
    await keeper.take()
    assert len(launcher.browsers) == 2
    keeper.give_back(*beside, GOOD)
    await asyncio.sleep(0)
    assert launcher.browsers[0].ended


async def test_a_doubtful_or_worn_tab_is_closed_and_not_used_again() -> None:
    keeper = make(launcher := FakeLauncher())
    kept, tab = await keeper.take()
    keeper.give_back(kept, tab, DOUBTFUL)
    _, fresh = await keeper.take(fresh=True)
    keeper.give_back(kept, fresh, GOOD)
    assert (await keeper.take())[1] not in (tab, fresh)
    await keeper.close()
    assert isinstance(tab, FakeTab)
    assert tab.closed.is_set()
    assert len(launcher.browsers) == 1


async def test_a_tab_that_cannot_be_closed_retires_its_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_TAB_SECONDS", 0.0)
    keeper = make(launcher := FakeLauncher())
    # With no time at all a tab can still be made: making it waits for nothing.
    kept, tab = await keeper.take()
    assert isinstance(tab, FakeTab)
    tab.hangs = True
    keeper.give_back(kept, tab, DOUBTFUL)
    await asyncio.gather(*keeper._beside)
    while keeper._beside:
        await asyncio.gather(*keeper._beside)
    assert launcher.browsers[0].ended


async def test_a_browser_with_room_for_one_serves_one() -> None:
    keeper = make(launcher := FakeLauncher(room=1))
    first = await keeper.take()
    await keeper.take()
    assert len(launcher.browsers) == 2
    keeper.give_back(*first, GOOD)
    await keeper.take()
    assert len(launcher.browsers) == 2


async def test_a_browser_that_gives_no_tab_is_replaced_once_and_then_it_is_an_error() -> None:
    keeper = make(launcher := FakeLauncher())
    keeper.give_back(*await keeper.take(fresh=True), GOOD)
    launcher.browsers[0].gives_tabs = False
    await keeper.take()
    assert len(launcher.browsers) == 2


async def test_a_start_that_fails_is_told_to_all_who_wait_and_tried_again_by_the_next() -> None:
    keeper = make(launcher := FakeLauncher())
    launcher.fault = CrashedError("it did not start")
    told = await asyncio.gather(keeper.take(), keeper.take(), return_exceptions=True)
    assert [str(each) for each in told] == ["it did not start"] * 2
    launcher.fault = None
    await keeper.take()


async def test_who_stops_waiting_does_not_stop_the_start() -> None:
    keeper = make(launcher := FakeLauncher())
    launcher.gate.clear()
    leaving, staying = asyncio.create_task(keeper.take()), asyncio.create_task(keeper.take())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    launcher.gate.set()
    await staying
    assert len(launcher.browsers) == 1


async def test_a_tab_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_IDLE_SECONDS", 0.0)
    keeper = make(launcher := FakeLauncher())
    kept, tab = await keeper.take()
    keeper.give_back(kept, tab, GOOD)
    assert isinstance(tab, FakeTab)
    await tab.closed.wait()
    assert (await keeper.take())[1] is not tab
    assert len(launcher.browsers) == 1


async def test_browsers_that_are_retired_finish_their_pages_and_give_no_more() -> None:
    launcher = FakeLauncher()
    keeper = BrowserPool(launcher, targets=100, growth=10**9)
    kept, tab = await keeper.take()
    keeper.retire("the proxies have changed")
    other, later = await keeper.take()
    assert other is not kept
    assert [browser.ended for browser in launcher.browsers] == [False, False]
    keeper.give_back(kept, tab, GOOD)
    await asyncio.sleep(0)
    assert [browser.ended for browser in launcher.browsers] == [True, False]
    keeper.give_back(other, later, GOOD)
    await keeper.close()


async def test_closing_ends_everything_and_a_later_page_begins_anew() -> None:
    keeper = make(launcher := FakeLauncher())
    await keeper.take()
    await keeper.close()
    assert launcher.browsers[0].ended
    assert launcher.closed
    await keeper.take()
    assert len(launcher.browsers) == 2
