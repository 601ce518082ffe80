"""A site on loopback with difficult pages, and real browsers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.services.chromium import need_chromium

from longshore.scrape.browser import Browsers, SyncBrowsers
from longshore.system.loop_thread import LoopThread

KINDS = ("playwright", "selenium")

PAGES = {
    "/plain": "<title>Plain</title><h1>As it was sent</h1>",
    "/scripted": "<div id=place></div><script>place.innerHTML = '<b class=made>made here</b>'</script>",
    "/later": "<script>setTimeout(() => document.body.innerHTML = '<i id=late>late</i>', 300)</script><body></body>",
    "/heavy": "<img src=/a.png><link rel=stylesheet href=/b.css><script src=/c.js></script><p>text",
    "/framed": "<iframe src='http://localhost:PORT/heavy'></iframe>",
    "/popup": "<script>window.open('/plain')</script>opened another",
    "/spins": "<script>while (true) {}</script>",
    "/spins-later": "<p>loaded</p><script>setTimeout(() => { while (true) {} }, 50)</script>",
    "/challenge": "<title>Moment</title><script>window._cf_chl_opt={}; '/cdn-cgi/challenge-platform/'</script>",
    "/solved": "<title>Moment</title><script>window._cf_chl_opt={}; '/cdn-cgi/challenge-platform/';"
    "setTimeout(() => document.documentElement.innerHTML = '<h1>Let in</h1>', 300)</script>",
    "/shop": "<div id=place></div><script src=/shop.js></script>",
    "/shop.js": "fetch('/price.json?at=1').then(answer => answer.json()).then(data => {"
    "place.innerHTML += `<b class=price>${data.price}</b>` })",
    "/price.json": '{"price": "12.50"}',
    "/alert": "<script>alert('hello')</script><p>after the alert",
    "/alerts": "<script>setInterval(() => alert('again'), 1)</script><p>after the first",
}


class Site:
    """A site that counts its requests by path; `port` and `url` are its address."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.sources: set[str] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        # To a browser, the two names of this machine are two sites.
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        yield
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        self.agents.add(request.headers.get("User-Agent", ""))
        self.sources.add(request.remote or "")
        match request.path:
            case "/busy":
                return web.Response(status=503, text="not now", headers={"Retry-After": "7"})
            case "/moved":
                raise web.HTTPFound("/plain")
            case "/moved-shop":
                raise web.HTTPFound("/shop")
            case "/file":
                return web.Response(body=b"x", headers={"Content-Disposition": "attachment; filename=x.bin"})
            case "/cookie":
                answer = web.Response(text=f"had {request.cookies.get('seen', 'none')}", content_type="text/html")
                answer.set_cookie("seen", "one")
                return answer
            case "/never":
                await asyncio.Event().wait()
        text = PAGES.get(request.path, "<p>a page").replace("PORT", str(self.port))
        kinds = {"css": "text/css", "js": "text/javascript", "png": "image/png"}
        return web.Response(text=text, content_type=kinds.get(request.path.rpartition(".")[2], "text/html"))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Run the site in its own event loop and thread."""
    thread = LoopThread("site")
    site = Site()
    running = site.running()
    thread.call(_enter(running))
    yield site
    thread.call(_leave(running))
    thread.close()


async def _enter(running: Any) -> None:
    await running.__aenter__()


async def _leave(running: Any) -> None:
    await running.__aexit__(None, None, None)


@pytest.fixture(scope="session", autouse=True)
def chromium() -> None:
    need_chromium()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def browsers(kind: Any) -> Iterator[SyncBrowsers]:
    """The browsers of a module's tests: starting a browser is slow."""
    made = SyncBrowsers(Browsers(kind, timeout=timedelta(seconds=20)))
    yield made
    made.close()


@pytest.fixture
async def make_browsers() -> AsyncIterator[Callable[..., Browsers]]:
    """Make browsers that are closed at the end of the test."""
    made: list[Browsers] = []

    def make(*args: Any, **options: Any) -> Browsers:
        made.append(Browsers(*args, **options))
        return made[-1]

    yield make
    for each in made:
        await each.close()
