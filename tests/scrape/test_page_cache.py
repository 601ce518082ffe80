"""The page cache on disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from tests.scrape.scripted_site import Answer, NotingPace, ScriptedSite

from longshore.clock import ManualClock
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.client import Http, StatusError
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response

HOUR = 3600


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cache(tmp_path: Path, clock: ManualClock) -> PageCache:
    return PageCache(tmp_path / "pages", ttl=timedelta(hours=1), clock=clock)


@pytest.fixture
async def http(cache: PageCache) -> AsyncIterator[Http]:
    made = Http(cache=cache, retries=0)
    yield made
    await made.close()


def pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def test_a_page_is_fetched_once_an_hour(site: ScriptedSite, http: Http, clock: ManualClock) -> None:
    site.script["/x"] = [Answer("one", headers={"X-Mine": "1"}), Answer("two")]
    url = f"{site.url}/x"
    first = await http.get(url)
    clock.advance(HOUR - 1)
    again = await http.get(url)
    assert (again.body, again.status, again.url) == (first.body, first.status, first.url)
    assert again.headers["x-mine"] == "1"
    clock.advance(1)
    assert (await http.get(url)).text == "two"


async def test_spellings_of_one_page_share_it(site: ScriptedSite, http: Http) -> None:
    await http.get(f"{site.url}/x?b=2&a=1#top")
    await http.get(f"{site.url}/x?a=1&b=2&utm_source=mail")
    assert len(site.requests) == 1 + 1, "robots.txt, and the page"


async def test_a_page_served_from_disk_asks_nobody(site: ScriptedSite, cache: PageCache) -> None:
    pace = NotingPace()
    seen: list[Exchange] = []
    http = Http(cache=cache, pace=pace)
    for _ in range(2):
        await http.attempt(watch=seen.append).get(f"{site.url}/x")
    await http.close()
    # The page uses the slot of its robots.txt, which is the first request to the host.
    assert len(pace.slots) == 1
    assert [exchange.cached for exchange in seen] == [False, True]
    assert (seen[1].status, seen[1].body, seen[1].final_url) == (200, b"hello", f"{site.url}/x")


def by_etag(request: web.Request) -> Answer:
    if request.headers.get("If-None-Match") == '"1"':
        return Answer(b"", status=304)
    return Answer("the page", headers={"ETag": '"1"'})


def by_date(request: web.Request) -> Answer:
    date = "Mon, 02 Mar 2026 08:00:00 GMT"
    if request.headers.get("If-Modified-Since") == date:
        return Answer(b"", status=304)
    return Answer("the page", headers={"Last-Modified": date})


@pytest.mark.parametrize("answers", [by_etag, by_date])
async def test_a_page_that_has_not_changed_is_not_sent_again(
    site: ScriptedSite, http: Http, clock: ManualClock, answers: object
) -> None:
    site.script["/x"] = answers  # type: ignore[assignment]
    seen: list[Exchange] = []
    watched = http.attempt(watch=seen.append)
    requests = []
    for _ in range(4):
        answer = await watched.get(f"{site.url}/x")
        assert (answer.status, answer.text) == (200, "the page")
        requests.append(len(site.asked("/x")))
        clock.advance(HOUR * 0.75)
    assert requests == [1, 1, 2, 2], "fetched; from disk; asked whether it changed; and so fresh once more"
    assert [(exchange.status, exchange.body) for exchange in seen] == [(200, b"the page")] * 4
    assert [exchange.cached for exchange in seen] == [False, True, True, True]


async def test_who_asks_with_conditions_is_given_the_304(site: ScriptedSite, http: Http, clock: ManualClock) -> None:
    site.script["/x"] = by_etag
    assert (await http.get(f"{site.url}/x", headers={"If-None-Match": '"1"'})).status == 304


@pytest.mark.parametrize("status", [404, 500, 206])
async def test_only_whole_pages_are_kept(site: ScriptedSite, http: Http, tmp_path: Path, status: int) -> None:
    site.script["/x"] = [Answer(status=status)]
    await http.get(f"{site.url}/x", check=False)
    assert pages(tmp_path) == []


async def test_a_post_is_never_answered_from_disk(site: ScriptedSite, http: Http, tmp_path: Path) -> None:
    for _ in range(2):
        await http.post(f"{site.url}/x", data="y")
    assert len(site.asked("/x")) == 2
    assert pages(tmp_path) == []


async def test_other_headers_are_another_page(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = lambda request: Answer(request.headers.get("Accept-Language", "any"))
    heard = []
    tongues: list[Mapping[str, str]] = [{"Accept-Language": "de"}, {"Accept-Language": "fr"}, {"accept-language": "de"}]
    for headers in tongues:
        heard.append((await http.get(f"{site.url}/x", headers=headers)).text)  # noqa: PERF401
    assert heard == ["de", "fr", "de"]
    assert len(site.asked("/x")) == 2


async def test_a_page_that_was_redirected_is_found_by_where_it_was_asked_for(site: ScriptedSite, http: Http) -> None:
    site.script["/from"] = [Answer(status=302, headers={"Location": "/to"})]
    for _ in range(2):
        assert (await http.get(f"{site.url}/from")).url == f"{site.url}/to"
    assert len(site.asked("/to")) == 1


async def test_another_process_finds_the_page(site: ScriptedSite, tmp_path: Path) -> None:
    for _ in range(2):
        http = Http(cache=PageCache(tmp_path))
        await http.get(f"{site.url}/x")
        await http.close()
    assert len(site.asked("/x")) == 1


@pytest.mark.parametrize("wreck", [b"", b"not zstd", None])
async def test_a_file_that_is_no_page_is_fetched_anew(
    site: ScriptedSite, http: Http, tmp_path: Path, wreck: bytes | None
) -> None:
    await http.get(f"{site.url}/x")
    (path,) = pages(tmp_path)
    path.write_bytes(path.read_bytes()[:-5] if wreck is None else wreck)
    assert (await http.get(f"{site.url}/x")).text == "hello"
    assert len(site.asked("/x")) == 2
    await http.get(f"{site.url}/x")
    assert len(site.asked("/x")) == 2


async def test_where_nothing_can_be_written_pages_are_fetched_all_the_same(site: ScriptedSite, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    http = Http(cache=PageCache(tmp_path / "file"))
    try:
        for _ in range(2):
            assert (await http.get(f"{site.url}/x")).text == "hello"
    finally:
        await http.close()
    assert len(site.asked("/x")) == 2


async def test_pages_are_kept_small(tmp_path: Path) -> None:
    cache = PageCache(tmp_path)
    body = b"<tr><td>the same again</td></tr>" * 1000
    await cache.keep(Request("GET", "http://h/x"), Response(url="http://h/x", body=body))
    (path,) = pages(tmp_path)
    assert path.stat().st_size < len(body) / 20


async def kept(cache: PageCache, name: str, size: int = 1000) -> None:
    await cache.keep(Request("GET", f"http://h/{name}"), Response(url="http://h/", body=os.urandom(size)))


async def found(cache: PageCache, name: str) -> bool:
    return await cache.find(Request("GET", f"http://h/{name}")) is not None


async def test_those_used_longest_ago_make_room(tmp_path: Path) -> None:
    cache = PageCache(tmp_path, max_bytes=10_000)
    for number in range(8):
        await kept(cache, str(number))
    for age, path in enumerate(sorted(pages(tmp_path), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (age, age))
    assert await found(cache, "0"), "used just now"
    for number in range(8, 12):
        await kept(cache, str(number))
    assert sum(path.stat().st_size for path in pages(tmp_path)) <= 10_000
    assert await found(cache, "0")
    assert not await found(cache, "1")
    assert await found(cache, "11")


async def test_what_others_wrote_counts_and_so_does_what_they_left_unfinished(tmp_path: Path) -> None:
    for number in range(5):
        await kept(PageCache(tmp_path), str(number))
    left = pages(tmp_path)[0].parent / "tmp-left-by-one-who-was-killed"
    left.write_bytes(b"x" * 2000)
    os.utime(left, (1, 1))
    await kept(PageCache(tmp_path, max_bytes=5000), "mine")
    assert sum(path.stat().st_size for path in pages(tmp_path)) <= 5000
    assert not left.exists()


async def test_a_page_larger_than_all_room_is_not_kept(tmp_path: Path) -> None:
    cache = PageCache(tmp_path, max_bytes=5000)
    await kept(cache, "small")
    await kept(cache, "large", 6000)
    assert await found(cache, "small")
    assert not await found(cache, "large")


async def test_many_may_write_one_page_at_once(tmp_path: Path) -> None:
    caches = [PageCache(tmp_path) for _ in range(8)]
    await asyncio.gather(*(kept(cache, "x", 50_000) for cache in caches))
    assert await found(caches[0], "x")
    assert len(pages(tmp_path)) == 1


async def test_an_error_is_an_error_where_there_is_a_cache(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer(status=404)]
    with pytest.raises(StatusError):
        await http.get(f"{site.url}/x")


async def test_a_page_is_found_by_what_was_sent_too(site: ScriptedSite, http: Http) -> None:
    site.script["/search"] = [Answer("one"), Answer("two")]
    for words, found in [("a", "one"), ("b", "two"), ("a", "one")]:
        assert (await http.request("GET", f"{site.url}/search", json={"words": words})).text == found
