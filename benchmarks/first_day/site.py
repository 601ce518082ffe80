"""A shop on loopback as scrapers meet them: 300 items on 30 pages, behind a log-in, in latin-1, compressed.

robots.txt names a compressed sitemap of the 30 pages, and forbids a folder that every page links to. JSON-LD describes
the items. Without its session cookie, every page is the log-in form, which has a hidden token.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

PAGES, ITEMS_EACH = 30, 10
ITEMS = PAGES * ITEMS_EACH
USER, PASSWORD = "ann", "rope-and-oak"
_TOKEN, _SESSION = "f3a9", "c41d"
_SECONDS = 0.02
"""How long a page takes."""


def name_of(number: int) -> str:
    """Return the name of an item; it does not survive a wrong charset."""
    return f"Gürtel Größe {number}"


def price_of(number: int) -> str:
    """Return the price of an item."""
    return f"{number / 4 + 1:.2f}"


class Shop:
    """The shop; `asked` counts its requests by path."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.address = ""

    @property
    def forbidden(self) -> int:
        """How many requests robots.txt forbids were made."""
        return sum(number for path, number in self.asked.items() if path.startswith("/private/"))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve the shop on a free port, and yield its address."""
        app = web.Application()
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/sitemap.xml.gz", self._sitemap)
        app.router.add_post("/login", self._log_in)
        app.router.add_get("/{path:.*}", self._page)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self.address
        finally:
            await runner.cleanup()

    async def _robots(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        return web.Response(text=f"User-agent: *\nDisallow: /private/\nSitemap: {self.address}/sitemap.xml.gz\n")

    async def _sitemap(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        urls = "".join(f"<url><loc>{self.address}/list/{page}</loc></url>" for page in range(1, PAGES + 1))
        text = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        return web.Response(body=gzip.compress(text.encode()), content_type="application/gzip")

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        form = await request.post()
        if (form.get("user"), form.get("password"), form.get("token")) != (USER, PASSWORD, _TOKEN):
            return web.Response(status=403, text="wrong")
        answer = web.Response(text="welcome")
        answer.set_cookie("session", _SESSION)
        return answer

    async def _page(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        await asyncio.sleep(_SECONDS)
        folder, _, number = request.path.strip("/").partition("/")
        if request.cookies.get("session") != _SESSION:
            return _latin(_LOGIN)
        if folder == "list" and number.isdigit() and 1 <= int(number) <= PAGES:
            return _latin(_list(int(number)))
        if folder == "item" and number.isdigit() and 1 <= int(number) <= ITEMS:
            return _latin(_item(int(number)))
        return web.Response(status=404, text="no such page")


_LOGIN = (
    "<title>Log in</title><form id=login action=/login method=post><input name=user><input name=password type=password>"
    f"<input type=hidden name=token value={_TOKEN}><button>Log in</button></form>"
)


def _list(page: int) -> str:
    first = (page - 1) * ITEMS_EACH + 1
    links = "".join(f'<li><a class=item href="/item/{n}">{name_of(n)}</a>' for n in range(first, first + ITEMS_EACH))
    return f"<title>Page {page}</title><ul>{links}</ul><a href=/private/{page}>for staff</a>"


def _item(number: int) -> str:
    product = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": name_of(number),
        "sku": str(number),
        "offers": {"@type": "Offer", "price": price_of(number), "priceCurrency": "EUR"},
    }
    data = json.dumps(product, ensure_ascii=False)
    return f"<title>{name_of(number)}</title><script type=application/ld+json>{data}</script><h1>{name_of(number)}</h1>"


def _latin(text: str) -> web.Response:
    answer = web.Response(body=text.encode("latin-1"), headers={"Content-Type": "text/html; charset=ISO-8859-1"})
    answer.enable_compression(web.ContentCoding.gzip)
    return answer
