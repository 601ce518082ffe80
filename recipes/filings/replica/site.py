"""The server of the replica. It keeps to the habits of such a source: a client without a contact gets nothing, one that
asks too fast is refused and then banned, pages are slow, and some fail when they are asked for first."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter, deque
from dataclasses import dataclass

from aiohttp import web

from filings.replica.index import index_page
from filings.replica.layouts import file_of
from filings.replica.stories import Filing, filings, truth
from filings.replica.world import chance

BLOCK_PAGE = """<!doctype html><html><head><title>EDGAR replica | Request Rate Threshold Exceeded</title></head>
<body><h1>Request Rate Threshold Exceeded</h1><p>Please wait.</p></body></html>"""
_TROUBLES = ("503", "block page", "429", "cut off", "connection closed", "ends in the middle")


@dataclass(frozen=True)
class SiteOptions:
    """How unfriendly the site is."""

    rate: float = 10.0
    """Requests a second, in a window of ten seconds."""
    seconds: float = 0.05
    """How long a page takes."""
    slow_seconds: float = 1.5
    """How long one of twenty pages takes."""
    troubled: float = 0.15
    """The share of pages that fail when they are asked for first."""


class Site:
    """The site, and its truth."""

    def __init__(self, options: SiteOptions) -> None:
        self._options = options
        self._files = {each.path: each for each in filings()}
        self._asked = set[str]()
        self._served = deque[float]()
        self._refused = deque[float]()
        self._banned_until = 0.0
        self._troubles = 0
        self.counts = Counter[str]()

    async def start(self, port: int) -> int:
        """Serve the site on loopback, and return its port; port 0 is any free one."""
        app = web.Application()
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/Archives/edgar/full-index/{year:\\d+}/QTR{quarter:[1-4]}/master.idx", self._index)
        app.router.add_get("/Archives/edgar/data/{cik:\\d+}/{name}", self._filing)
        app.router.add_get("/truth.jsonl", self._truth)
        app.router.add_get("/counts.json", self._counts)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return int(runner.addresses[-1][1])

    async def _robots(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="User-agent: *\nDisallow: /cgi-bin/\n")

    async def _index(self, request: web.Request) -> web.StreamResponse:
        page = int(request.query.get("page", "1")) if request.query.get("page", "1").isdecimal() else 0
        year, quarter = int(request.match_info["year"]), int(request.match_info["quarter"])
        found = index_page(year, quarter, page)
        if found is None:
            raise web.HTTPNotFound
        text, more = found
        headers = {"Link": f'<{request.path}?page={page + 1}>; rel="next"'} if more else {}
        return await self._answer(request, text.encode("cp1252"), "text/plain; charset=utf-8", headers)

    async def _filing(self, request: web.Request) -> web.StreamResponse:
        filing = self._files.get(f"edgar/data/{request.match_info['cik']}/{request.match_info['name']}")
        if filing is None:
            raise web.HTTPNotFound
        return await self._answer(request, file_of(filing), "text/plain", {})

    async def _answer(
        self, request: web.Request, body: bytes, content_type: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        refusal = self._judged(request)
        if refusal is not None:
            return refusal
        name = str(request.rel_url)
        dice = chance("trouble", name)
        await asyncio.sleep(self._options.slow_seconds if dice.random() < 0.05 else self._options.seconds)
        if name not in self._asked:
            self._asked.add(name)
            if dice.random() < self._options.troubled:
                trouble = _TROUBLES[self._troubles % len(_TROUBLES)]
                self._troubles += 1
                self.counts[f"first time: {trouble}"] += 1
                return await self._troubled(request, trouble, body)
        self.counts["served"] += 1
        return web.Response(body=body, headers={"Content-Type": content_type, **headers})

    def _judged(self, request: web.Request) -> web.Response | None:
        """Return how the request is refused; None if it is served."""
        if "@" not in request.headers.get("User-Agent", ""):
            self.counts["403 without a contact"] += 1
            return web.Response(status=403, text="Declare a contact in your user agent.")
        now, window = time.monotonic(), 10.0
        if now < self._banned_until:
            self.counts["403 banned"] += 1
            return web.Response(status=403, text="banned")
        while self._served and self._served[0] <= now - window:
            self._served.popleft()
        if len(self._served) < self._options.rate * window:
            self._served.append(now)
            return None
        while self._refused and self._refused[0] <= now - window:
            self._refused.popleft()
        self._refused.append(now)
        self.counts["429"] += 1
        if len(self._refused) > 25:
            self._banned_until = now + 10
        return web.Response(status=429, text="slower, please", headers={"Retry-After": "2"})

    async def _troubled(self, request: web.Request, trouble: str, body: bytes) -> web.StreamResponse:
        match trouble:
            case "503":
                return web.Response(status=503, text="come back in a moment")
            case "429":
                return web.Response(status=429, text="slower, please", headers={"Retry-After": "1"})
            case "block page":
                return web.Response(text=BLOCK_PAGE, content_type="text/html")
            case "ends in the middle" if body.startswith((b"<SEC", b"---")):
                return web.Response(body=body[: len(body) * 2 // 3], content_type="text/plain")
            case "cut off":
                # The length that is announced never arrives.
                answer = web.StreamResponse(headers={"Content-Type": "text/plain", "Content-Length": str(len(body))})
                await answer.prepare(request)
                await answer.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _truth(self, request: web.Request) -> web.Response:
        """Send a line for each record that a perfect reader has: `?year=2010&limit=10`."""
        chosen = chosen_filings(request.query.get("year", ""), request.query.get("limit", ""))
        base = f"{request.scheme}://{request.host}/Archives"
        lines = []
        for filing in chosen:
            for kind, values in truth(filing):
                more = {"url": f"{base}/{filing.path}"} if kind == "filing" else {}
                lines.append(json.dumps({"record": kind, **values, **more}, ensure_ascii=False) + "\n")
        return web.Response(text="".join(lines), content_type="application/jsonl")

    async def _counts(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(self.counts)


def chosen_filings(year: str, limit: str) -> list[Filing]:
    """Return the filings of a year, or of all years; the first ones, if there is a limit."""
    found = [each for each in filings() if not re.fullmatch(r"\d{4}", year) or each.filed.year == int(year)]
    return found[: int(limit)] if limit.isdecimal() else found
