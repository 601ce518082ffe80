"""The server of the replica: the site on one port, and a proxy on each of the following ones.

A request to a proxy is answered here, too; the site sees it under the number of the proxy, and a direct one under 0.
Pages are slow, and some fail when they are asked for first: with 503 or 429, a block page with status 200, half of the
page, or a closed connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from yellowpages.places import Choice, Target, categories, cities
from yellowpages.replica.layouts import BLOCK_PAGE, Page, result_page
from yellowpages.replica.limits import AddressLimits, LimitOptions, Verdict
from yellowpages.replica.world import accepted, chance, results

_TROUBLES = ("503", "block page", "429", "cut off", "connection closed")


@dataclass(frozen=True)
class SiteOptions:
    """How unfriendly the site is."""

    seconds: float = 0.05
    """How long a page takes."""
    slow_seconds: float = 1.5
    """How long one of twenty pages takes."""
    troubled: float = 0.08
    """The share of pages that fail when they are asked for first."""
    limits: LimitOptions = field(default_factory=LimitOptions)


class Site:
    """The site, and the proxies that lead to it."""

    def __init__(self, options: SiteOptions) -> None:
        self._options = options
        self._limits = AddressLimits(options.limits)
        self._cities = {f"{city.name}, {city.state}": city for city in cities()}
        self._asked = set[str]()
        self._troubled_pages = 0
        self._numbers: dict[int, int] = {}
        self.counts = Counter[str]()

    async def start(self, port: int, proxies: int) -> tuple[int, list[int]]:
        """Serve the site and its proxies on loopback. Return the ports. Port 0 is any free one, for each of them."""
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        ports = []
        for number in range(proxies + 1):
            await web.TCPSite(runner, "127.0.0.1", port and port + number).start()
            ports.append(int(runner.addresses[-1][1]))
            self._numbers[ports[-1]] = number
        return ports[0], ports[1:]

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/search", self._search)
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/truth.jsonl", self._truth)
        app.router.add_get("/rejected.json", self._rejected)
        app.router.add_get("/counts.json", self._counts)
        return app

    async def _robots(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="User-agent: *\nDisallow: /mip/\n")

    async def _search(self, request: web.Request) -> web.StreamResponse:
        address = self._number_of(request)
        verdict = self._limits.judge(address, time.monotonic())
        self.counts["direct" if address == 0 else "through proxies"] += 1
        self.counts[verdict.value] += 1
        if verdict is not Verdict.SERVED:
            return self._refused(verdict)
        page = self._page(request)
        name = request.rel_url.query_string
        dice = chance("trouble", name)
        await asyncio.sleep(self._options.slow_seconds if dice.random() < 0.05 else self._options.seconds)
        if page is None:
            raise web.HTTPNotFound
        if name not in self._asked:
            self._asked.add(name)
            if dice.random() < self._options.troubled:
                trouble = _TROUBLES[self._troubled_pages % len(_TROUBLES)]
                self._troubled_pages += 1
                self.counts[f"first time: {trouble}"] += 1
                return self._troubled(request, trouble, page.body)
        # Any browser and any cache may keep it for a moment.
        headers = {"Content-Type": page.content_type, "Cache-Control": "max-age=60"}
        return web.Response(body=page.body, headers=headers)

    def _number_of(self, request: web.Request) -> int:
        transport = request.transport
        own = None if transport is None else transport.get_extra_info("sockname")
        return 0 if own is None else self._numbers[own[1]]

    def _page(self, request: web.Request) -> Page | None:
        query = request.rel_url.query
        city = self._cities.get(query.get("geo_location_terms", ""))
        category = query.get("search_terms", "")
        if city is None or category not in categories():
            return None
        page = query.get("page", "1")
        return result_page(Target(city, category), int(page)) if page.isdigit() else None

    def _refused(self, verdict: Verdict) -> web.Response:
        match verdict:
            case Verdict.TOO_MANY:
                return web.Response(status=429, text="slower, please", headers={"Retry-After": "2"})
            case Verdict.TOO_MANY_SILENT:
                return web.Response(status=429, text="slower, please")
            case Verdict.BLOCKED:
                return web.Response(text=BLOCK_PAGE, content_type="text/html")
            case _:
                return web.Response(status=403, text="banned")

    def _troubled(self, request: web.Request, trouble: str, body: bytes) -> web.Response:
        match trouble:
            case "503":
                return web.Response(status=503, text="come back in a moment")
            case "429":
                return web.Response(status=429, text="slower, please")
            case "block page":
                return web.Response(text=BLOCK_PAGE, content_type="text/html")
            case "cut off":
                return web.Response(body=body[: len(body) // 2], content_type="text/html")
            case _:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()

    async def _truth(self, request: web.Request) -> web.StreamResponse:
        """Send a line for each record that a perfect scrape of the chosen targets has."""
        answer = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        await answer.prepare(request)
        for target in chosen(request).targets():
            lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in accepted(target)]
            await answer.write("".join(lines).encode())
        return answer

    async def _rejected(self, request: web.Request) -> web.Response:
        """Send how many businesses the filter rejects for which reason."""
        why = Counter(each.rejected for target in chosen(request).targets() for each in results(target))
        del why[""]
        return web.json_response(why)

    async def _counts(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(self.counts)


def chosen(request: web.Request) -> Choice:
    """Return the targets that a request for the truth names: `?states=DE,RI&cities=2&categories=3`."""
    query = request.rel_url.query

    def number(name: str) -> int | None:
        return int(query[name]) if name in query else None

    states: Sequence[str] = query.get("states", "").split(",")
    return Choice(states, number("cities"), number("categories"))
