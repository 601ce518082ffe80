"""Failures of browser pages run again offline: the recorded responses answer a real browser, and nothing is fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scrape.browser.conftest import Site

from longshore import AsyncKit, Job, SyncKit, handler
from longshore.errors import Failure
from longshore.extensions.traces import ExchangeKind
from longshore.handlers.offline_run import OfflineAttempt, failure_of, run_offline
from longshore.outcome import Completed
from longshore.scrape.browser import Browsers, PageRecording, SyncBrowsers
from longshore.scrape.browser.offline import OfflineBrowsers
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_bundles import FailureBundles, read_bundle
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.capture.trail import Trail
from longshore.testing import make_job

SHOP = "/shop"
Recorded = Callable[..., list[Exchange]]


@pytest.fixture(scope="module")
def offline(kind: Any) -> Iterator[OfflineBrowsers]:
    browsers = OfflineBrowsers(kind)
    yield browsers
    asyncio.run(browsers.close())


@pytest.fixture(scope="module")
def recorded(kind: Any) -> Iterator[Callable[..., list[Exchange]]]:
    """Return a function that returns what a page leaves whose handler reads the price and then fails, or not."""
    made = {
        record: SyncBrowsers(Browsers(kind, record=record, wants_picture=lambda _: True))
        for record in (PageRecording.FAILED, PageRecording.ALL)
    }

    def record_page(url: str, record: PageRecording = PageRecording.FAILED, *, fails: bool = True) -> list[Exchange]:
        seen: list[Exchange] = []
        try:
            with made[record].attempt(watch=seen.append).page() as page:
                page.open(url)
                page.wait_for(".price")
                page.html()
                assert not fails, "the handler fails"
        except AssertionError:
            assert fails
        return seen

    yield record_page
    for browsers in made.values():
        browsers.close()


@handler("shop", timeout=60)
def price(job: Job, kit: SyncKit) -> str:
    with kit.browser.page() as page:
        page.open(job.payload["url"])
        page.wait_for(".price")
        return page.html()


@handler("shop", timeout=60)
async def price_async(job: Job, kit: AsyncKit) -> str:
    async with kit.browser.page() as page:
        await page.open(job.payload["url"])
        await page.wait_for(".price")
        return await page.html()


def result_of(attempt: OfflineAttempt) -> Any:
    assert isinstance(attempt.outcome, Completed), failure_of(attempt)
    return msgspec.json.decode(msgspec.json.encode(attempt.outcome.result))


async def test_scripts_and_their_data_answer_the_handler_again(
    site: Site, offline: OfflineBrowsers, recorded: Recorded
) -> None:
    url = f"{site.url}/moved-shop"
    exchanges = recorded(url)
    asked = site.asked.copy()
    job = make_job({"url": url}, kind="shop")

    attempt = await run_offline(price, job, exchanges, "the bundle", browsers=offline)

    assert '<b class="price">12.50</b>' in result_of(attempt)
    assert site.asked == asked


async def test_async_handlers_have_the_same_pages(kind: Any, site: Site, recorded: Recorded) -> None:
    url = f"{site.url}{SHOP}"
    exchanges = recorded(url)
    browsers = OfflineBrowsers(kind)
    try:
        job = make_job({"url": url}, kind="shop")
        attempt = await run_offline(price_async, job, exchanges, "the bundle", browsers=browsers)
    finally:
        await browsers.close()
    assert '<b class="price">12.50</b>' in result_of(attempt)


async def test_the_drivers_own_page_works_on_recorded_responses(
    kind: Any, site: Site, offline: OfflineBrowsers, recorded: Recorded
) -> None:
    def address(driver: Any) -> str:
        return str(driver.url if kind == "playwright" else driver.current_url)

    @handler("shop", timeout=60)
    def where(job: Job, kit: SyncKit) -> str:
        with kit.browser.page() as page:
            page.open(job.payload["url"])
            return page.do(address)

    url = f"{site.url}/moved-shop"
    exchanges = recorded(url)
    attempt = await run_offline(where, make_job({"url": url}, kind="shop"), exchanges, "the bundle", browsers=offline)
    assert result_of(attempt) == f"{site.url}{SHOP}"


async def test_a_failure_outside_the_page_still_has_the_document_that_was_read(
    site: Site, offline: OfflineBrowsers, recorded: Recorded
) -> None:
    url = f"{site.url}/moved-shop"
    exchanges = recorded(url, fails=False)
    assert [each.kind for each in exchanges] == [ExchangeKind.OPENED, ExchangeKind.DOCUMENT]
    asked = site.asked.copy()

    attempt = await run_offline(price, make_job({"url": url}, kind="shop"), exchanges, "the bundle", browsers=offline)

    # Its script has run: run again, it would add a second price.
    assert result_of(attempt).count('class="price"') == 1
    assert site.asked == asked


async def test_a_page_that_was_not_recorded_is_refused(
    site: Site, offline: OfflineBrowsers, recorded: Recorded
) -> None:
    exchanges = recorded(f"{site.url}{SHOP}")
    asked = site.asked.copy()
    job = make_job({"url": f"{site.url}/plain"}, kind="shop")
    failure = failure_of(await run_offline(price, job, exchanges, "the bundle", browsers=offline))
    assert failure is not None and "/plain is not among the browser pages kept of the bundle" in failure.message
    assert site.asked == asked


async def test_a_page_that_did_not_load_fails_in_the_same_way(offline: OfflineBrowsers) -> None:
    message = "http://127.0.0.1:1/ could not be opened: ERR_UNSAFE_PORT"
    opened = Exchange(kind=ExchangeKind.OPENED, url="http://127.0.0.1:1/", error=message)
    failed = Failure("connection", message)
    job = make_job({"url": "http://127.0.0.1:1/"}, kind="shop")
    failure = failure_of(await run_offline(price, job, [opened], "the bundle", failed, browsers=offline))
    assert failure is not None and failure.message == message


async def test_a_script_cannot_reach_the_network(site: Site, offline: OfflineBrowsers, recorded: Recorded) -> None:
    """Neither with a request that was not recorded, nor with a WebSocket, which is not intercepted."""
    body = f"""<b class=price>1</b><script>
        fetch('{site.url}/secret').catch(() => document.body.innerHTML += '<i class=refused></i>');
        new WebSocket('ws://127.0.0.1:{site.port}/socket').onerror =
            () => document.body.innerHTML += '<i class=closed></i>';
        </script>"""
    url = "https://shop.example/"
    exchanges = [
        Exchange(kind=ExchangeKind.OPENED, url=url, final_url=url, status=200),
        Exchange(
            kind=ExchangeKind.LOADED, url=url, status=200, headers={"Content-Type": "text/html"}, body=body.encode()
        ),
    ]

    @handler("shop", timeout=60)
    def waits(job: Job, kit: SyncKit) -> None:
        with kit.browser.page() as page:
            page.open(job.payload["url"])
            page.wait_for(".refused")
            page.wait_for(".closed")

    asked = site.asked.copy()
    result_of(await run_offline(waits, make_job({"url": url}, kind="shop"), exchanges, "x", browsers=offline))
    assert site.asked == asked


async def test_a_bundle_has_the_page_and_a_har(
    site: Site, offline: OfflineBrowsers, recorded: Recorded, tmp_path: Path
) -> None:
    url = f"{site.url}{SHOP}"
    trail = Trail()
    for exchange in recorded(url):
        trail.watch(exchange)
    job = make_job({"url": url}, kind="shop")
    signature = FailureSignature("KeyError", "shop.py", "price", 5)
    path = FailureBundles(tmp_path).keep(job, Failure("unknown", "x"), signature, trail)
    assert path is not None

    _, exchanges = read_bundle(path)
    assert '<b class="price">' in result_of(await run_offline(price, job, exchanges, "x", browsers=offline))
    entries = msgspec.json.decode((path / "browser.har").read_bytes())["log"]["entries"]
    shown = {entry["request"]["url"]: path / entry["response"]["content"]["_file"] for entry in entries}
    assert shown[f"{site.url}/price.json?at=1"].read_bytes() == b'{"price": "12.50"}'


async def test_kept_pages_of_browsers_are_parsed_again(
    site: Site, offline: OfflineBrowsers, recorded: Recorded, tmp_path: Path
) -> None:
    url = f"{site.url}{SHOP}"
    job = make_job({"url": url}, kind="shop")
    keeper = PageStore(tmp_path).attempt(job)
    for exchange in recorded(url, PageRecording.ALL, fails=False):
        keeper.add(exchange)
    keeper.close()
    asked = site.asked.copy()
    exchanges = PageStore(tmp_path).exchanges(job)
    assert '<b class="price">' in result_of(await run_offline(price, job, exchanges, "x", browsers=offline))
    assert site.asked == asked


async def test_a_page_that_cannot_be_recorded_changes_nothing(kind: Any, site: Site) -> None:
    async def broken(_: object) -> list[Exchange]:
        raise RuntimeError("the driver is confused")

    browsers = Browsers(kind, record=PageRecording.ALL)
    try:
        async with browsers.attempt(watch=lambda _: None).page() as page:
            await page.open(f"{site.url}/plain")
            vars(page)["_browser_proxy"].tab.loaded = broken.__get__(page)
            assert "As it was sent" in await page.html()
    finally:
        await browsers.close()
