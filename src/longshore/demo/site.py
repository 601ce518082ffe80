"""A shop on this machine: generated pages, some of which are slow or fail.

    python -m longshore.demo.site --pages 10000 --urls-file urls.txt

serves a shop whose pages all work, until Ctrl-C, for trying out handlers of your own; with `--troubles` some do not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

_WHAT = ("Lantern", "Anchor", "Compass", "Rope", "Barrel", "Sextant", "Bell", "Chart", "Pulley", "Oar")
_OF_WHAT = ("brass", "oak", "hemp", "iron", "copper", "linen", "ash", "steel")


@dataclass(frozen=True)
class Troubles:
    """The numbers of the pages that are slow or fail."""

    slow: frozenset[int] = frozenset()
    flaky: frozenset[int] = frozenset()
    """Pages that answer 503 three times, which is as often as one attempt asks."""
    broken: frozenset[int] = frozenset()
    """Pages that always answer 500."""
    hanging: frozenset[int] = frozenset()
    """Pages that never answer."""
    unpriced: frozenset[int] = frozenset()
    """Pages that have words in the place of a price."""

    @property
    def fatal(self) -> frozenset[int]:
        """The pages that fail however often they are tried."""
        return self.broken | self.hanging


DEMO_TROUBLES = Troubles(
    slow=frozenset({12, 33, 54, 75, 96, 117, 138}),
    flaky=frozenset({9, 41, 68, 103, 140}),
    broken=frozenset({66}),
    hanging=frozenset({17}),
)

TUTORIAL_TROUBLES = Troubles(
    slow=frozenset({5}), flaky=frozenset({9}), broken=frozenset({17}), unpriced=frozenset({23, 31})
)
"""Those of docs/tutorial.md."""


@dataclass
class Site:
    """A shop with `pages` pages."""

    pages: int
    troubles: Troubles = field(default_factory=Troubles)
    seconds: tuple[float, float] = (0.0, 0.0)
    """The shortest and the longest time in which an ordinary page answers."""
    visits: Counter[int] = field(default_factory=Counter)

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[str]:
        """Serve the shop on loopback, and yield its address. Port 0 is any free port."""
        from aiohttp import web

        app = web.Application()
        app.router.add_get("/item/{number:[0-9]+}", self._answer)
        # A hanging page must not keep the site from closing; 0 would wait for it forever.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    def urls(self, address: str) -> list[str]:
        """Return the URL of every page."""
        return [f"{address}/item/{number}" for number in range(1, self.pages + 1)]

    def write_urls(self, path: Path, address: str) -> None:
        """Write the URL of every page to a file, one a line."""
        path.write_text("".join(f"{url}\n" for url in self.urls(address)), encoding="utf-8")

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        number = int(request.match_info["number"])
        self.visits[number] += 1
        if not 1 <= number <= self.pages:
            return web.Response(status=404, text="no such item")
        if number in self.troubles.hanging:
            await asyncio.Event().wait()
        if number in self.troubles.broken:
            return web.Response(status=500, text="the shelf fell over")
        if number in self.troubles.flaky and self.visits[number] <= 3:
            return web.Response(status=503, text="come back in a moment")
        await asyncio.sleep(1.5 if number in self.troubles.slow else random.uniform(*self.seconds))  # noqa: S311
        priced = number not in self.troubles.unpriced
        return web.Response(text=page(number, self.pages, priced=priced), content_type="text/html")


def page(number: int, pages: int, *, priced: bool = True) -> str:
    """Return the page of an item; it depends on nothing but its arguments."""
    dice = random.Random(number)  # noqa: S311
    name = f"{dice.choice(_OF_WHAT).capitalize()} {dice.choice(_WHAT).lower()} No. {number}"
    near = sorted({dice.randint(1, pages) for _ in range(3)})
    links = "\n".join(f'    <li><a href="/item/{other}">Item {other}</a></li>' for other in near)
    price = f"{dice.randint(100, 99_999) / 100:.2f}"
    return f"""<!doctype html>
<html lang="en">
  <head><title>{name}</title></head>
  <body>
    <h1>{name}</h1>
    <p>Price: <span class="price">{price if priced else "on request"}</span></p>
    <ul>
{links}
    </ul>
  </body>
</html>
"""


async def _serve(site: Site, port: int, urls_file: Path | None) -> None:
    async with site.served(port) as address:
        if urls_file is not None:
            site.write_urls(urls_file, address)
        sys.stdout.write(f"Serving {site.pages:,} pages on {address}/item/1 and on. Ctrl-C ends.\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Serve a shop until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m longshore.demo.site", description=main.__doc__)
    parser.add_argument("--pages", type=int, default=100, help="how many pages (100)")
    parser.add_argument("--port", type=int, default=8765, help="the port on loopback (8765); 0 is any free one")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds each page takes (0)")
    parser.add_argument("--urls-file", type=Path, help="write the URL of every page to this file")
    parser.add_argument("--troubles", action="store_true", help="let some pages be slow, fail, or lack a price")
    given = parser.parse_args()
    site = Site(
        given.pages,
        troubles=TUTORIAL_TROUBLES if given.troubles else Troubles(),
        seconds=(given.delay, given.delay),
    )
    try:
        asyncio.run(_serve(site, given.port, given.urls_file))
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    except OSError as error:
        parser.exit(1, f"The site cannot be served: {error.strerror or error}. Choose another --port.\n")


if __name__ == "__main__":
    main()
