"""The server of the replica: a page of its own on one port, and each register on one of the following ports.

Pages are slow, and some fail when they are asked for first: with 503 or 429, a block page with status 200, half of the
page, or a closed connection.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from registers.replica.argentina import ARGENTINA
from registers.replica.india import INDIA
from registers.replica.limits import LimitOptions, Limits, Verdict
from registers.replica.malaysia import MALAYSIA
from registers.replica.netherlands import NETHERLANDS
from registers.replica.quebec import QUEBEC
from registers.replica.russia import RUSSIA, expired_page, form_page
from registers.replica.taiwan import TAIWAN
from registers.replica.world import BLOCK_PAGE, Page, Register, chance

_LIMITS = {
    INDIA: LimitOptions(rate=25, refusal=Verdict.TOO_MANY),
    MALAYSIA: LimitOptions(rate=25, refusal=Verdict.TOO_MANY_SILENT, sliding=True),
    NETHERLANDS: LimitOptions(rate=25, refusal=Verdict.BLOCKED),
    TAIWAN: LimitOptions(rate=25, refusal=Verdict.TOO_MANY, sliding=True),
    RUSSIA: LimitOptions(rate=10, refusal=Verdict.TOO_MANY_SILENT),
    ARGENTINA: LimitOptions(rate=10, refusal=Verdict.BLOCKED, sliding=True),
    QUEBEC: LimitOptions(rate=5, refusal=Verdict.TOO_MANY, burst=5),
}
REGISTERS = {register.name: register for register in _LIMITS}
_TROUBLES = ("503", "block page", "429", "cut off", "connection closed")


@dataclass(frozen=True)
class SiteOptions:
    """How large and how unfriendly the registers are."""

    size: int = 120
    """Products of each register."""
    seconds: float = 0.05
    """How long a page takes."""
    slow_seconds: float = 1.5
    """How long one of twenty pages takes."""
    troubled: float = 0.02
    """The share of pages that fail when they are asked for first."""
    unlimited: bool = False
    """Whether the registers may be asked as often as one likes."""
    hold_after: int | None = None
    """After this number of pages a register waits with its answers, until `/NAME/go` is asked for; None never holds."""


class RegisterSite:
    """One register as a web site."""

    def __init__(self, register: Register, options: SiteOptions) -> None:
        self.register = register
        self.counts = Counter[str]()
        self._options = options
        self._limits = Limits(_LIMITS[register])
        self._asked = set[str]()
        self._tokens = set[str]()
        self.go = asyncio.Event()
        """Set when held answers may be sent."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /aide\n")
        # Read before anything is refused, so that the connection can be used again.
        form = {name: str(value) for name, value in (await request.post()).items()}
        verdict = Verdict.SERVED if self._options.unlimited else self._limits.judge(time.monotonic())
        self.counts[verdict.value] += 1
        if verdict is not Verdict.SERVED:
            return _refused(verdict)
        path = request.path_qs
        if self.register is RUSSIA and request.method == "POST":
            path = f"/search?page={form.get('page')}"
        dice = chance("trouble", self.register.name, path)
        await asyncio.sleep(self._options.slow_seconds if dice.random() < 0.05 else self._options.seconds)
        page = self._page(request, path, form)
        if page is None:
            raise web.HTTPNotFound
        name = f"{request.method} {path}"
        if name not in self._asked:
            self._asked.add(name)
            if dice.random() < self._options.troubled:
                trouble = _TROUBLES[self.counts["troubled"] % len(_TROUBLES)]
                self.counts["troubled"] += 1
                self.counts[f"first time: {trouble}"] += 1
                return _troubled(request, trouble, page)
        if self.register is not RUSSIA or request.method == "POST":
            await self._hold()
            self.counts["good"] += 1
        headers = {"Content-Type": page.content_type, "Cache-Control": "max-age=60"}
        return web.Response(status=page.status, body=page.body, headers=headers)

    async def _hold(self) -> None:
        hold_after = self._options.hold_after
        if hold_after is not None and self.counts["good"] >= hold_after:
            await self.go.wait()

    def _page(self, request: web.Request, path: str, form: Mapping[str, str]) -> Page | None:
        if self.register is not RUSSIA:
            return self.register.page(path, self._options.size)
        if request.method == "GET":
            token = secrets.token_hex(8)
            self._tokens.add(token)
            page = form_page(token)
            return page if request.path == "/search" else None
        state = form.get("__state", "")
        if state not in self._tokens:
            return expired_page()
        self._tokens.remove(state)
        return self.register.page(path, self._options.size)


def _refused(verdict: Verdict) -> web.Response:
    match verdict:
        case Verdict.TOO_MANY:
            return web.Response(status=429, text="slower, please", headers={"Retry-After": "1"})
        case Verdict.TOO_MANY_SILENT:
            return web.Response(status=429, text="slower, please")
        case Verdict.BLOCKED:
            return web.Response(text=BLOCK_PAGE, content_type="text/html")
        case _:
            return web.Response(status=403, text="banned")


def _troubled(request: web.Request, trouble: str, page: Page) -> web.Response:
    match trouble:
        case "503":
            return web.Response(status=503, text="come back in a moment")
        case "429":
            return web.Response(status=429, text="slower, please")
        case "block page":
            return web.Response(text=BLOCK_PAGE, content_type="text/html")
        case "cut off":
            return web.Response(body=page.body[: len(page.body) // 2], headers={"Content-Type": page.content_type})
        case _:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()


class Replica:
    """All registers, and a site that says where they are and what is true."""

    def __init__(self, options: SiteOptions) -> None:
        self._options = options
        self._sites = {name: RegisterSite(register, options) for name, register in REGISTERS.items()}
        self._urls: dict[str, str] = {}

    async def start(self, port: int) -> int:
        """Serve everything on loopback, and return the first port. Port 0 is any free one, for each of them."""
        for number, (name, site) in enumerate(self._sites.items(), 1):
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", site.answer)
            self._urls[name] = f"http://127.0.0.1:{await _serve(app, port and port + number)}"
        app = web.Application()
        app.router.add_get("/registers.json", self._where)
        app.router.add_get("/{name}/urls.txt", self._start_urls)
        app.router.add_get("/{name}/truth.jsonl", self._truth)
        app.router.add_get("/{name}/counts.json", self._counts)
        app.router.add_get("/{name}/go", self._go)
        return await _serve(app, port)

    async def _where(self, request: web.Request) -> web.Response:
        """Send the URL of each register."""
        del request
        return web.json_response(self._urls)

    async def _start_urls(self, request: web.Request) -> web.Response:
        """Send the URLs to begin with: all pages of a distributed register."""
        site = self._site(request)
        base = self._urls[site.register.name]
        return web.Response(text="".join(f"{base}{path}\n" for path in site.register.start(self._options.size)))

    async def _truth(self, request: web.Request) -> web.Response:
        """Send a line for each record that a perfect scrape has."""
        records = self._site(request).register.truth(self._options.size)
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        return web.Response(text="".join(lines), content_type="application/jsonl")

    async def _counts(self, request: web.Request) -> web.Response:
        return web.json_response(self._site(request).counts)

    async def _go(self, request: web.Request) -> web.Response:
        self._site(request).go.set()
        return web.Response()

    def _site(self, request: web.Request) -> RegisterSite:
        site = self._sites.get(request.match_info["name"])
        if site is None:
            raise web.HTTPNotFound(text=f"The registers are: {', '.join(self._sites)}\n")
        return site


async def _serve(app: web.Application, port: int) -> int:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return int(runner.addresses[-1][1])
