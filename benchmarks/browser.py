"""Pages through a browser: ours beside a bare Playwright script that uses one page again and again.

The pages are 32 KB with 50 rows each, from a server on loopback in a process of its own. The contestants take turns in
short rounds, in changing order; ours replaces its browsers on the way as it does by default, every 100 pages. A figure
is all pages by all their time: a median would pass over the replacements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection

from aiohttp import web
from playwright import async_api as api

from benchmarks.measure import SPAWN, Figure
from longshore.scrape.browser import Browsers, find_browser
from longshore.scrape.browser.find_browser import Kind

PAGES = 20
ROUNDS = 15
ROWS = 50

Open = Callable[[str], Awaitable[str]]
"""Open a URL and return its document."""


def figures() -> list[Figure]:
    """Pages a second, and ours by the bare script's."""
    here, there = SPAWN.Pipe()
    site = SPAWN.Process(target=_serve, args=(there,), daemon=True)
    site.start()
    try:
        rates = asyncio.run(_contest(f"http://127.0.0.1:{here.recv()}"))
    finally:
        site.kill()
        site.join()
    bare = rates["bare Playwright, reused page"]
    return [Figure(name, rate, "pages/s", "bare", rate / bare) for name, rate in rates.items()]


async def _contest(site: str) -> dict[str, float]:
    found: dict[str, float] = {}
    async with _bare() as bare, _ours("playwright") as playwright, _ours("selenium") as selenium:
        contestants: dict[str, Open] = {
            "bare Playwright, reused page": bare,
            "longshore, Playwright": playwright,
            "longshore, Selenium": selenium,
        }
        order = list(contestants)
        for number in range(ROUNDS + 1):
            order.append(order.pop(0))
            for name in order:
                begin = time.perf_counter()
                for page in range(PAGES):
                    html = await contestants[name](f"{site}/{number}/{page}")
                    assert html.count("<tr>") == ROWS, "the page is not the page"
                if number:  # the first round starts what is slow to start
                    found[name] = found.get(name, 0.0) + time.perf_counter() - begin
    return {name: ROUNDS * PAGES / found[name] for name in contestants}


@asynccontextmanager
async def _bare() -> AsyncIterator[Open]:
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_browser().path)
        page = await browser.new_page()

        async def visit(url: str) -> str:
            await page.goto(url)
            return await page.content()

        yield visit
        await browser.close()


@asynccontextmanager
async def _ours(kind: Kind) -> AsyncIterator[Open]:
    browsers = Browsers(kind)

    async def visit(url: str) -> str:
        async with browsers.page() as page:
            await page.open(url)
            return await page.html()

    yield visit
    await browsers.close()


def _serve(there: Connection) -> None:
    rows = "".join(f"<tr><td>{number}</td><td>{'x' * 600}</td></tr>" for number in range(ROWS))
    body = f"<!doctype html><title>rows</title><table>{rows}</table>"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="text/html")

    async def run() -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        there.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())
