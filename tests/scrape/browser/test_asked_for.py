"""The options of browsers: blocked resources, user agent, proxy, pace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.scrape.browser.conftest import KINDS, Site
from tests.scrape.proxy_servers import ProxyServer, SocksServer, running
from tests.scrape.scripted_site import NotingPace

from longshore.errors import ConnectionFailedError, SettingsError
from longshore.pacing.contract import BLOCK_PAGE, HostClosedError
from longshore.scrape.browser import Browsers, picture_of
from longshore.scrape.browser.command_line import arguments
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.response import BlockPageError, StatusError

Make = Callable[..., Browsers]


@pytest.mark.parametrize("kind", KINDS)
async def test_blocked_types_are_not_asked_for_not_even_in_frames_of_other_sites(
    make_browsers: Make, site: Site, kind: str
) -> None:
    browsers = make_browsers(kind, blocked=("image", "script"), private_hosts=("localhost",))
    site.asked.clear()
    async with browsers.page() as page:
        await page.open(f"{site.url}/heavy")
        assert (site.asked["/b.css"], site.asked["/a.png"], site.asked["/c.js"]) == (1, 0, 0)
        await page.open(f"{site.url}/framed")
        assert (site.asked["/heavy"], site.asked["/a.png"]) == (2, 0)


def test_a_type_that_cannot_be_blocked_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match=r"'images' cannot be blocked in a browser\. Choose from image,"):
        Browsers(blocked=("images",))


@pytest.mark.parametrize(
    "proxy",
    [
        "",
        "socks5://",
        "ftp://127.0.0.1:1",
        "http://127.0.0.1",
        "http://127.0.0.1:x",
        "http://grün.org:1",
        "http://x=y:1",
    ],
)
def test_what_is_no_proxy_is_refused_before_a_browser_would_go_without(proxy: str) -> None:
    with pytest.raises(SettingsError, match="is no proxy"):
        Browsers(proxy=proxy)


def test_a_pool_gives_no_browser_a_proxy_that_it_would_go_without() -> None:
    with pytest.raises(SettingsError, match="has no address of letters"):
        arguments(blocked=frozenset(), proxy_server="http://grün.org:1", user_agent=None)


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(SettingsError, match="Choose playwright or selenium"):
        Browsers("lynx")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_request_goes_through_the_proxy_as_the_user_it_names(
    make_browsers: Make, site: Site, kind: str
) -> None:
    server = (
        SocksServer("127.0.1.7", login=("anna", "p:w@d"))
        if kind == "selenium"
        else ProxyServer("127.0.1.7", login=("anna", "secret"))
    )
    async with running(server):
        proxy = server.proxy_with(("anna", "p%3Aw%40d")) if kind == "selenium" else server.proxy
        browsers = make_browsers(kind, proxy=proxy.url, user_agent="longshore-test/1")
        site.sources.clear()
        site.agents.clear()
        async with browsers.page() as page:
            await page.open(f"{site.url}/plain")
            assert "As it was sent" in await page.html()
        assert site.sources == {"127.0.1.7"}
        assert site.agents == {"longshore-test/1"}
        await browsers.close()


async def test_a_proxy_that_refuses_the_password_is_named_without_it(make_browsers: Make, site: Site) -> None:
    server = ProxyServer(login=("anna", "right"))
    async with running(server):
        browsers = make_browsers(proxy=server.proxy_with(("anna", "wrong")).url)
        async with browsers.page() as page:
            with pytest.raises(ConnectionFailedError, match="does not accept the user name and password") as caught:
                await page.open(f"{site.url}/plain")
        assert "wrong" not in str(caught.value)
        await browsers.close()


class StrictPace:
    """A limiter that admits one host and records its calls."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        if host == "closed.example":
            raise HostClosedError(host, 90, "it said so")

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        self.told.append((host, status, retry_after))

    def crawl_delay(self, host: str, seconds: float) -> None:
        raise AssertionError


async def test_pages_keep_the_pace_ask_for_permission_and_are_watched(make_browsers: Make, site: Site) -> None:
    pace = StrictPace()
    browsers = make_browsers(pace=pace, wants_picture=lambda error: isinstance(error, ValueError))
    seen: list[Exchange] = []

    async def permit(url: str) -> None:
        if url.endswith("/secret"):
            raise PermissionError(url)

    async with browsers.attempt(permit=permit, watch=seen.append).page() as page:
        with pytest.raises(HostClosedError):
            await page.open("http://closed.example/")
        with pytest.raises(PermissionError):
            await page.open(f"{site.url}/secret")
        with pytest.raises(StatusError):
            await page.open(f"{site.url}/busy")
    host = f"127.0.0.1:{site.port}"
    assert pace.told == [(host, 503, 7.0)]
    assert [(exchange.final_url, exchange.status) for exchange in seen] == [(f"{site.url}/busy", 503)]

    # The picture of a page on which a handler failed is attached to its error.
    with pytest.raises(ValueError, match="no price") as caught:
        async with browsers.page() as page:
            await page.open(f"{site.url}/plain")
            raise ValueError("no price")
    picture = picture_of(caught.value)
    assert picture is not None
    assert picture.url == f"{site.url}/plain"
    assert "As it was sent" in picture.html
    assert picture.screenshot.startswith(b"\x89PNG")
    assert picture_of(KeyError()) is None


async def test_a_page_that_must_not_be_asked_for_is_not_handed_out_after_a_redirect_either(
    make_browsers: Make, site: Site
) -> None:
    async def permit(url: str) -> None:
        if url.endswith("/plain"):
            raise PermissionError(url)

    async with make_browsers().attempt(permit=permit).page() as page:
        with pytest.raises(PermissionError):
            await page.open(f"{site.url}/moved")


async def test_pages_load_side_by_side_in_one_browser(make_browsers: Make, site: Site) -> None:
    browsers = make_browsers(timeout=timedelta(seconds=20))
    async with browsers.page() as first, browsers.page() as second:
        await first.open(f"{site.url}/plain")
        await second.open(f"{site.url}/scripted")
        assert "As it was sent" in await first.html()
        assert "made here" in await second.html()
        assert len(browsers.pids) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_block_page_is_a_refusal(make_browsers: Make, site: Site, kind: str) -> None:
    pace = NotingPace()
    async with make_browsers(kind, pace=pace).page() as page:
        with pytest.raises(BlockPageError, match="a challenge of Cloudflare"):
            await page.open(f"{site.url}/challenge")
        await page.open(f"{site.url}/plain")
    assert [status for _, _, status, _ in pace.answers] == [BLOCK_PAGE, 200]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_challenge_that_lets_the_browser_through_is_a_page(make_browsers: Make, site: Site, kind: str) -> None:
    async with make_browsers(kind).page() as page:
        await page.open(f"{site.url}/solved")
        assert "Let in" in await page.html()
