"""Pictures of every page, wide and at phone width, light and dark.

    python -m tests.server.page.screenshots FOLDER

Look at them before you change the pages, and after. `--readme` in the place of the folder makes those in docs/images.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, StorageState
from tests.server.page.fleet_scene import PAST_SECONDS, RUN, Crew, fill
from tests.server.page.page_server import chromium, page_server

from longshore.clock import ManualClock
from longshore.job import Job
from longshore.media import open_queue

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDTHS = {"wide": (1280, 900), "phone": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(folder: Path | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / ".longshore"
        data.mkdir()
        url = f"sqlite:///{place}/queue.db"
        failed, stop = _prepare(url, data)
        with page_server(Path(place), url) as server, chromium() as browser:
            session = _log_in(browser, server.login)
            if folder is None:
                _for_readme(browser, session, server.url)
                stop()
                return
            folder.mkdir(parents=True, exist_ok=True)
            pages = {
                "overview": "/",
                "run": f"/run?name={RUN}",
                "job": f"/job?id={failed}",
                "jobs": f"/jobs?run={RUN}&state=failed",
                "failures": "/failures",
                "hosts": "/hosts",
                "workers": "/workers",
                "submit": "/submit?kind=target",
                "form": "/submit?kind=filing",
                "confirm": f"/confirm?verb=retry&run={RUN}&state=failed",
                "nothing-found": "/jobs?q=nothing-like-this",
                "missing": "/run?name=no-such-run",
            }
            for width, (across, down) in WIDTHS.items():
                for scheme in SCHEMES:
                    context = browser.new_context(
                        storage_state=session, viewport={"width": across, "height": down}, color_scheme=scheme
                    )
                    page = context.new_page()
                    for name, path in pages.items():
                        page.goto(server.url + path)
                        _settled(page)
                        page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
                    context.clear_cookies()
                    page.goto(server.url + "/login")
                    page.screenshot(path=folder / f"login-{width}-{scheme}.png")
                    context.close()
        stop()


def _prepare(url: str, data: Path) -> tuple[str, Callable[[], None]]:
    loop = asyncio.new_event_loop()
    clock = ManualClock(time.time() - PAST_SECONDS)
    failed = loop.run_until_complete(_filled(url, data, clock))
    queue = loop.run_until_complete(open_queue(url))
    crew = loop.create_task(Crew(queue).work())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def stop() -> None:
        crew.add_done_callback(lambda _: loop.stop())
        loop.call_soon_threadsafe(crew.cancel)
        thread.join()

    return failed.id, stop


async def _filled(url: str, data: Path, clock: ManualClock) -> Job:
    queue = await open_queue(url, clock=clock)
    failed = await fill(queue, data, clock=clock)
    await queue.close()
    return failed


def _log_in(browser: Browser, login: str) -> StorageState:
    context = browser.new_context()
    page = context.new_page()
    page.goto(login)
    page.wait_for_url("**/")
    state = context.storage_state()
    context.close()
    return state


def _settled(page: Page) -> None:
    """Wait until the page has shown a few snapshots."""
    page.wait_for_timeout(3500)


def _for_readme(browser: Browser, session: StorageState, url: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, path, height in (("overview", "/", 640), ("run", f"/run?name={RUN}", 1060)):
        context = browser.new_context(storage_state=session, viewport={"width": 1100, "height": height})
        page = context.new_page()
        page.goto(url + path)
        page.wait_for_timeout(25_000)  # some history for the chart
        page.screenshot(path=IMAGES / f"{name}.png")
        context.close()


if __name__ == "__main__":
    main(None if sys.argv[1] == "--readme" else Path(sys.argv[1]))
