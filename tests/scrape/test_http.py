"""The HTTP client against a real server on this machine."""

from __future__ import annotations

import asyncio
import codecs
import pickle
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Literal

import pytest
from aiohttp import web
from tests.scrape.scripted_site import Answer, ScriptedSite, SwiftClock

from longshore.errors import ConnectionFailedError, Failure, ProcessingError, TimedOutError, ValidationError
from longshore.scrape.http.client import Http, Response, StatusError, SyncHttp
from longshore.system.loop_thread import LoopThread


class Site:
    """A few pages, and a count of the connections opened for them."""

    def __init__(self) -> None:
        self.url = ""
        self.connections: set[int] = set()
        self._over = asyncio.Event()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/{name}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        # Release the hanging page first, or the server would wait for it.
        self._over.set()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(id(request.transport))
        name = request.match_info["name"]
        match name:
            case "hang":
                await self._over.wait()
            case "drop":
                assert request.transport is not None
                request.transport.close()
            case "loop":
                raise web.HTTPFound("/loop")
            case "astray":
                raise web.HTTPFound("ftp://h/x")
            case "moved":
                raise web.HTTPFound("/page")
            case "latin":
                return web.Response(body="é".encode("latin-1"), content_type="text/html", charset="latin-1")
            case "strange":
                return web.Response(body=b"ok", headers={"Content-Type": "text/html; charset=nonsense"})
            case "json":
                return web.json_response({"a": 1})
            case "large":
                return web.Response(body=b"x" * 2000)
            case "headers":
                return web.json_response(dict(request.headers))
            case _ if name.isdigit():
                return web.Response(status=int(name), text="sorry")
        return web.Response(text="hello é")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    runner = await made.start()
    yield made
    await made.stop(runner)


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    made = Http(timeout=timedelta(seconds=20), max_bytes=1000, clock=SwiftClock())
    yield made
    await made.close()


async def test_a_page_is_fetched(site: Site, http: Http) -> None:
    answer = await http.get(f"{site.url}/page")
    assert (answer.status, answer.text, answer.body) == (200, "hello é", "hello é".encode())
    assert answer.url == f"{site.url}/page"
    assert answer.headers["content-type"] == answer.headers["Content-Type"]


async def test_redirects_are_followed_and_the_end_is_named(site: Site, http: Http) -> None:
    assert (await http.get(f"{site.url}/moved")).url == f"{site.url}/page"


async def test_one_session_serves_all_fetches(site: Site, http: Http) -> None:
    for _ in range(3):
        await http.get(f"{site.url}/page")
    assert len(site.connections) == 1


async def test_json_is_read(site: Site, http: Http) -> None:
    assert (await http.get(f"{site.url}/json")).json() == {"a": 1}


async def test_a_page_that_is_no_json_says_so(site: Site, http: Http) -> None:
    with pytest.raises(ProcessingError, match="did not answer with JSON"):
        (await http.get(f"{site.url}/page")).json()


async def test_the_charset_of_the_server_counts(site: Site, http: Http) -> None:
    assert (await http.get(f"{site.url}/latin")).text == "é"
    assert (await http.get(f"{site.url}/strange")).text == "ok"


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/html", '<meta charset="windows-1251">Привет'.encode("cp1251"), '<meta charset="windows-1251">Привет'),
        ("", b'<meta http-equiv=content-type content="text/html; charset=latin1">\xe9', None),
        ("application/xml", '<?xml version="1.0" encoding="Shift_JIS"?><a>日本</a>'.encode("shift_jis"), None),
        ("text/html; charset=utf-8", '<meta charset="latin1">é'.encode(), '<meta charset="latin1">é'),
        ("text/html; charset=latin1", codecs.BOM_UTF8 + "é".encode(), "é"),
        ("text/html", "é".encode("utf-16"), "é"),
        ("application/json", '{"a": "<meta charset=latin1>é"}'.encode(), '{"a": "<meta charset=latin1>é"}'),
        ("text/html", b'<meta charset="no-such">ok', '<meta charset="no-such">ok'),
    ],
)
def test_a_page_is_decoded_as_a_browser_decodes_it(kind: str, body: bytes, text: str | None) -> None:
    found = Response(url="u", headers={"Content-Type": kind}, body=body).text
    assert found == text if text is not None else found.endswith(("é", "日本</a>"))


def test_json_may_begin_with_a_byte_order_mark() -> None:
    assert Response(url="u", body=codecs.BOM_UTF8 + b'{"a": 1}').json() == {"a": 1}


def test_bytes_that_do_not_fit_are_replaced() -> None:
    assert Response(url="u", body=b"a\xff").text == "a\ufffd"


async def test_headers_are_sent(site: Site, http: Http) -> None:
    sent = (await http.get(f"{site.url}/headers", headers={"X-Mine": "1"})).json()
    assert sent["X-Mine"] == "1"
    assert re.fullmatch(r"longshore/\d[\w.]*", sent["User-Agent"])


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (403, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
async def test_an_error_status_says_whether_to_try_again(site: Site, http: Http, status: int, retryable: bool) -> None:
    with pytest.raises(StatusError, match=f"answered {status}") as caught:
        await http.get(f"{site.url}/{status}")
    assert caught.value.status == status
    assert caught.value.retryable is retryable
    assert Failure.of(caught.value).error_type == "processing"


async def test_without_check_an_error_status_is_an_answer(site: Site, http: Http) -> None:
    answer = await http.get(f"{site.url}/404", check=False)
    assert (answer.status, answer.text) == (404, "sorry")


def test_a_status_error_can_be_sent_between_processes() -> None:
    again = pickle.loads(pickle.dumps(StatusError("http://h/", 503)))
    assert (again.status, again.retryable, str(again)) == (503, True, "http://h/ answered 503 Service Unavailable")


async def test_a_server_that_hangs_up_is_a_failed_connection(site: Site, http: Http) -> None:
    with pytest.raises(ConnectionFailedError, match="/drop could not be fetched"):
        await http.get(f"{site.url}/drop")


async def test_nobody_there_is_a_failed_connection_with_the_password_masked(site: Site, http: Http) -> None:
    port = site.url.rpartition(":")[2]
    # Another loopback address: the site listens on one address only.
    url = f"http://me:hunter2@127.0.0.2:{port}/"
    with pytest.raises(ConnectionFailedError) as caught:
        await http.get(url)
    assert "me:***@127.0.0.2" in str(caught.value)
    assert "hunter2" not in Failure.of(caught.value).traceback


async def test_a_page_that_takes_too_long_times_out(site: Site) -> None:
    http = Http(timeout=timedelta(milliseconds=20))
    try:
        with pytest.raises(TimedOutError, match=r"within 0\.02 seconds"):
            await http.get(f"{site.url}/hang")
    finally:
        await http.close()


async def test_a_page_that_is_too_large_is_refused_for_good(site: Site, http: Http) -> None:
    with pytest.raises(ProcessingError, match="larger than 1,000 bytes") as caught:
        await http.get(f"{site.url}/large")
    assert not caught.value.retryable


async def test_a_redirect_to_what_is_not_http_is_refused_for_good(site: Site, http: Http) -> None:
    with pytest.raises(ProcessingError, match="/astray redirects to an invalid URL") as caught:
        await http.get(f"{site.url}/astray")
    assert not caught.value.retryable


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_as_many_redirects_are_followed_as_in_browsers(transport: Literal["aiohttp", "curl"]) -> None:
    async with ScriptedSite().running() as site:
        for number in range(21):
            site.script[f"/{number}"] = [Answer(status=302, headers={"Location": f"/{number + 1}"})]
        http = Http(transport=transport)
        assert (await http.get(f"{site.url}/1")).url == f"{site.url}/21"
        with pytest.raises(ProcessingError, match="redirects without end"):
            await http.get(f"{site.url}/0")
        await http.close()


async def test_redirects_without_end_are_refused_for_good(site: Site, http: Http) -> None:
    with pytest.raises(ProcessingError, match="redirects without end") as caught:
        await http.get(f"{site.url}/loop")
    assert not caught.value.retryable


@pytest.mark.parametrize("url", ["not a url", "ftp://h/x", "http://", "https://me:hunter2@"])
async def test_what_is_no_url_is_refused_for_good(http: Http, url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        await http.get(url)
    assert "hunter2" not in str(caught.value)


async def test_closing_twice_is_harmless_and_a_later_fetch_opens_anew(site: Site, http: Http) -> None:
    await http.get(f"{site.url}/page")
    await http.close()
    await http.close()
    assert (await http.get(f"{site.url}/page")).status == 200


@pytest.fixture
def site_beside() -> Iterator[Site]:
    """Serve the site in another thread, for synchronous tests."""
    thread = LoopThread("site")
    made = Site()
    runner = thread.call(made.start())
    yield made
    thread.call(made.stop(runner))
    thread.close()


def test_plain_handlers_fetch_without_await(site_beside: Site) -> None:
    http = SyncHttp()
    try:
        assert http.get(f"{site_beside.url}/page").text == "hello é"
        assert http.get(f"{site_beside.url}/page").status == 200
        assert len(site_beside.connections) == 1
        with pytest.raises(StatusError):
            http.get(f"{site_beside.url}/404")
    finally:
        http.close()
        http.close()


async def test_plain_fetches_work_beside_a_running_loop(site_beside: Site) -> None:
    http = SyncHttp()
    try:
        assert http.get(f"{site_beside.url}/page").status == 200
    finally:
        http.close()
