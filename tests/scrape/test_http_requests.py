"""Requests: methods, bodies, parameters, redirects; and the limits on responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Literal

import pytest
from aiohttp import web
from tests.scrape.scripted_site import Answer, ScriptedSite, Silent, SwiftClock

from longshore.errors import ConnectionFailedError, ProcessingError, SettingsError, TimedOutError, ValidationError
from longshore.scrape.http import cookies
from longshore.scrape.http.client import Http, Response, StatusError, SyncHttp
from longshore.scrape.http.request import BodyOptions, Request, make_request
from longshore.scrape.http.user_agent import robot_name, user_agent
from longshore.scrape.proxies.proxy_file import Proxy


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    made = Http(clock=SwiftClock(), robots=False, private_hosts=("localhost",))
    yield made
    await made.close()


async def test_json_is_posted(site: ScriptedSite, http: Http) -> None:
    await http.post(f"{site.url}/in", json={"a": [1]})
    (asked,) = site.requests
    assert (asked.method, asked.body, asked.headers["Content-Type"]) == ("POST", b'{"a":[1]}', "application/json")


async def test_a_form_is_posted(site: ScriptedSite, http: Http) -> None:
    await http.post(f"{site.url}/in", data={"q": "a b", "tag": ["x", "y"]})
    (asked,) = site.requests
    assert asked.body == b"q=a+b&tag=x&tag=y"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("data", ["grüße", "grüße".encode()])
async def test_text_and_bytes_are_posted_as_they_are(site: ScriptedSite, http: Http, data: str | bytes) -> None:
    await http.post(f"{site.url}/in", data=data, headers={"content-type": "text/x-mine"})
    (asked,) = site.requests
    assert (asked.body, asked.headers["Content-Type"]) == ("grüße".encode(), "text/x-mine")


async def test_any_method_can_be_sent(site: ScriptedSite, http: Http) -> None:
    assert (await http.request("head", f"{site.url}/x")).body == b""
    await http.request("DELETE", f"{site.url}/x")
    assert [asked.method for asked in site.requests] == ["HEAD", "DELETE"]


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://h/x", "http://h/x?q=a+b&n=1&n=2"),
        ("http://h/x?y=0", "http://h/x?y=0&q=a+b&n=1&n=2"),
        ("http://h/x?", "http://h/x?q=a+b&n=1&n=2"),
        ("http://h/x#part", "http://h/x?q=a+b&n=1&n=2#part"),
    ],
)
def test_parameters_join_the_query(url: str, sent: str) -> None:
    assert make_request("GET", url, params={"q": "a b", "n": [1, 2]}).url == sent


@pytest.mark.parametrize("body", [{"data": "x", "json": {}}, {"json": object()}, {"json": {"x": 1j}}])
async def test_a_body_that_cannot_be_sent_is_refused_for_good(http: Http, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        await http.post("http://127.0.0.1:9/", **body)


async def test_a_header_that_would_smuggle_another_is_refused(site: ScriptedSite, http: Http) -> None:
    with pytest.raises(ValidationError, match="line break or another control character"):
        await http.get(f"{site.url}/x", headers={"X-Mine": "a\r\nX-Other: b"})
    assert site.requests == []


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (302, "GET", "GET"),
    ],
)
async def test_a_redirect_keeps_the_method_where_it_must(
    site: ScriptedSite, http: Http, status: int, method: str, then: str
) -> None:
    site.script["/from"] = [Answer(status=status, headers={"Location": "to?x=1"})]
    sent: BodyOptions = {} if method in ("GET", "HEAD") else {"data": b"sent"}
    answer = await http.request(method, f"{site.url}/from", **sent)
    assert answer.url == f"{site.url}/to?x=1"
    assert [asked.method for asked in site.requests] == [method, then]
    assert site.requests[1].body == (sent.get("data", b"") if then == method else b"")


async def test_what_is_private_does_not_follow_a_redirect_to_another_host(site: ScriptedSite, http: Http) -> None:
    site.script["/away"] = [Answer(status=302, headers={"Location": f"http://localhost:{site.port}/there"})]
    site.script["/near"] = [Answer(status=302, headers={"Location": "/here"})]
    secret = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Mine": "1", "Accept-Language": "de"}
    await http.get(f"{site.url}/away", headers=secret)
    await http.get(f"{site.url}/near", headers=secret)
    (there,), (here,) = site.asked("/there"), site.asked("/here")
    assert "Authorization" not in there.headers
    assert "Cookie" not in there.headers
    # Any header may hold a secret: X-Api-Key, X-Auth-Token.
    assert "X-Mine" not in there.headers
    assert there.headers["Accept-Language"] == "de"
    assert here.headers["Authorization"] == "Bearer x"
    assert here.headers["X-Mine"] == "1"


async def test_a_cookie_that_a_redirect_sets_is_sent_to_where_it_leads(site: ScriptedSite, http: Http) -> None:
    def consent(request: web.Request) -> Answer:
        if request.cookies.get("seen") == "1":
            return Answer("the page")
        return Answer(status=302, headers={"Set-Cookie": "seen=1", "Location": "/page"})

    site.script["/page"] = consent
    assert (await http.get(f"http://localhost:{site.port}/page")).text == "the page"


@pytest.mark.parametrize("kind", ["aiohttp", "curl"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_who_logs_in_stays_logged_in_also_at_a_site_without_a_name(
    site: ScriptedSite, kind: Literal["aiohttp", "curl"], host: str
) -> None:
    def account(request: web.Request) -> Answer:
        return Answer("Hello Ann") if request.cookies.get("sid") == "1" else Answer(status=401)

    site.script["/login"] = [Answer(status=302, headers={"Set-Cookie": "sid=1; Path=/", "Location": "/account"})]
    site.script["/account"] = account
    http = Http(robots=False, transport=kind)
    await http.post(f"http://{host}:{site.port}/login", data={"user": "ann", "password": "secret"})
    assert (await http.get(f"http://{host}:{site.port}/account")).text == "Hello Ann"
    await http.close()


async def test_an_option_that_there_is_not_is_refused_for_good(site: ScriptedSite, http: Http) -> None:
    mistyped: Any = {"chek": False, "timeout": 3}
    with pytest.raises(ValidationError, match=r"A request takes no chek\. It takes: check, data, .*headers, jar"):
        await http.get(f"{site.url}/x", **mistyped)
    assert not site.requests


async def test_an_error_behind_a_redirect_names_both_ends(site: ScriptedSite, http: Http) -> None:
    site.script["/item"] = [Answer(status=302, headers={"Location": "/login"})]
    site.script["/login"] = [Answer(status=401)]
    with pytest.raises(StatusError) as caught:
        await http.get(f"{site.url}/item")
    assert str(caught.value) == f"{site.url}/item led to {site.url}/login, which answered 401 Unauthorized"
    assert (caught.value.url, caught.value.final_url) == (f"{site.url}/item", f"{site.url}/login")


async def test_another_spelling_of_a_page_is_no_redirect(site: ScriptedSite, http: Http) -> None:
    site.script["/a b"] = [Answer(status=404)]
    with pytest.raises(StatusError, match=r"/a b\?q=ä#top answered 404 Not Found"):
        await http.get(f"{site.url}/a b?q=ä#top")


@pytest.mark.parametrize("kind", ["aiohttp", "curl"])
async def test_cookies_beyond_counting_are_forgotten(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch, kind: Literal["aiohttp", "curl"]
) -> None:
    monkeypatch.setattr(cookies, "MOST_COOKIES", 2)
    site.script["/x"] = lambda request: Answer(headers={"Set-Cookie": f"c{len(site.requests)}=1"})
    http = Http(robots=False, transport=kind)
    for _ in range(5):
        await http.get(f"http://localhost:{site.port}/x")
    await http.close()
    assert [len(asked.headers.get("Cookie", "").split()) for asked in site.requests] == [0, 1, 2, 0, 1]


async def test_an_answer_of_300_without_a_location_is_an_answer(site: ScriptedSite, http: Http) -> None:
    site.script["/choose"] = [Answer(status=300)]
    assert (await http.get(f"{site.url}/choose")).status == 300


async def test_a_page_in_many_pieces_is_put_together(site: ScriptedSite, http: Http) -> None:
    page = bytes(range(256)) * 4096
    site.script["/long"] = [Answer(page)]
    assert (await http.get(f"{site.url}/long")).body == page


BEGINNING = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"


async def test_an_answer_that_does_not_begin_has_a_deadline_of_its_own() -> None:
    http = Http(first_byte_timeout=timedelta(milliseconds=20), robots=False)
    async with Silent() as host:
        with pytest.raises(TimedOutError, match=r"did not begin to answer within 0\.02 seconds"):
            await http.get(f"http://{host}/")
    await http.close()


async def test_an_answer_that_has_begun_has_all_of_its_time() -> None:
    http = Http(timeout=timedelta(seconds=1.2), first_byte_timeout=timedelta(seconds=1), robots=False)
    async with Silent(BEGINNING) as host:
        with pytest.raises(TimedOutError, match=r"did not answer within 1\.2 seconds"):
            await http.get(f"http://{host}/")
    await http.close()


@pytest.mark.parametrize("timeout", [0.02, timedelta(milliseconds=20)])
async def test_a_request_may_bring_a_deadline_of_its_own(http: Http, timeout: float | timedelta) -> None:
    async with Silent() as host:
        with pytest.raises(TimedOutError, match=r"within 0\.02 seconds"):
            await http.get(f"http://{host}/", timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), timedelta(0)])
async def test_no_request_may_take_for_ever(http: Http, timeout: float | timedelta) -> None:
    with pytest.raises(ValidationError, match="Give it seconds above 0"):
        await http.get("http://127.0.0.1:9/", timeout=timeout)


async def test_redirects_share_the_time_of_one_try() -> None:
    given: list[float | None] = []

    class Onward:
        async def send(self, request: Request, proxy: Proxy | None, total: float | None) -> Response:
            given.append(total)
            await asyncio.sleep(0)
            headers = {"Location": "/on"} if len(given) < 3 else {}
            return Response(url=request.url, status=302, headers=headers)

        async def close(self) -> None:
            pass

    await Http(transport=Onward(), robots=False).get("http://h.test/", timeout=20)
    first, second, third = given
    assert first == 20
    assert second is not None
    assert third is not None
    assert 20 > second > third


async def test_what_is_not_given_may_be_none(site: ScriptedSite, http: Http) -> None:
    await http.post(f"{site.url}/x", headers=None, params=None, data=None, json=None, timeout=None, proxy=None)
    assert (site.requests[0].path, site.requests[0].body) == ("/x", b"")


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_connection_that_does_not_come_about_has_a_deadline(scheme: str) -> None:
    http = Http(connect_timeout=timedelta(milliseconds=20), retries=0, robots=False)
    async with Silent() as host:
        with pytest.raises(ConnectionFailedError, match=r"no connection within 0\.02 seconds"):
            await http.get("https://example.test/", proxy=f"{scheme}://{host}")
    await http.close()


async def test_a_bomb_is_refused_by_what_it_unpacks_to(site: ScriptedSite) -> None:
    import zlib

    packed = zlib.compress(b"0" * 1_000_000)
    assert len(packed) < 2000
    site.script["/bomb"] = [Answer(packed, headers={"Content-Encoding": "deflate"})]
    http = Http(max_bytes=100_000, robots=False)
    with pytest.raises(ProcessingError, match="larger than 100,000 bytes"):
        await http.get(f"{site.url}/bomb")
    await http.close()


async def test_there_is_no_third_transport() -> None:
    with pytest.raises(SettingsError, match="Choose aiohttp or curl"):
        Http(transport="smoke")  # type: ignore[arg-type]


async def test_an_attempt_shares_the_connections(site: ScriptedSite, http: Http) -> None:
    attempt = http.attempt()
    assert (await attempt.get(f"{site.url}/x")).text == "hello"
    assert (await attempt.post(f"{site.url}/x", data="y")).status == 200
    assert (await attempt.request("PUT", f"{site.url}/x", data="z")).status == 200


async def test_plain_handlers_can_do_the_same(site: ScriptedSite) -> None:
    def plain() -> None:
        http = SyncHttp(Http(robots=False))
        seen: list[str] = []
        try:
            http.post(f"{site.url}/x", json=1)
            http.request("PUT", f"{site.url}/x", data="z")
            attempt = http.attempt(watch=lambda exchange: seen.append(exchange.method), robots=False)
            attempt.get(f"{site.url}/x", params={"a": 1})
            attempt.post(f"{site.url}/x", data="y")
            attempt.request("PUT", f"{site.url}/x", data="z")
        finally:
            http.close()
        assert seen == ["GET", "POST", "PUT"]

    await asyncio.to_thread(plain)
    assert [asked.method for asked in site.requests] == ["POST", "PUT", "GET", "POST", "PUT"]


def test_the_user_agent_names_a_contact_on_one_line() -> None:
    assert user_agent("https://me.test/bot\r\nX: y").endswith(" (+https://me.test/bot X: y)")
    assert robot_name(user_agent()) == "longshore"


@pytest.mark.parametrize(("agent", "name"), [("MyBot/2.0 (+x)", "MyBot"), (" a-b_c d", "a-b_c"), ("(?)", "longshore")])
def test_robots_know_us_by_the_first_word(agent: str, name: str) -> None:
    assert robot_name(agent) == name


async def test_many_pages_are_fetched_in_one_call_so_many_at_once_and_come_in_order(http: Http) -> None:
    """E13."""
    under_way, most = 0, 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        # The third request releases all, so none can have waited for another.
        if under_way == 3:
            full.set()
        await full.wait()
        under_way -= 1
        return web.Response(text=request.path)

    full = asyncio.Event()
    app = web.Application()
    app.router.add_get("/{page}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    urls = [f"http://127.0.0.1:{runner.addresses[0][1]}/{number}" for number in range(9)]
    found = await http.get_all(iter(urls), at_once=3)
    await runner.cleanup()
    assert [each.text for each in found] == [f"/{number}" for number in range(9)]
    assert most == 3


async def test_the_first_error_among_many_ends_the_others(site: ScriptedSite, http: Http) -> None:
    site.script["/bad"] = [Answer(status=404)]
    with pytest.raises(StatusError):
        await http.get_all([f"{site.url}/bad", *(f"{site.url}/{n}" for n in range(50))], at_once=1)
    assert [asked.path for asked in site.requests] == ["/bad"]


async def test_plain_code_fetches_many_pages_too(site: ScriptedSite) -> None:
    http = SyncHttp(Http(robots=False))
    found = await asyncio.to_thread(http.get_all, [f"{site.url}/{number}" for number in range(3)])
    await asyncio.to_thread(http.close)
    assert [each.status for each in found] == [200] * 3
