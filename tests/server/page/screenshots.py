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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, StorageState
from tests.server.page.fleet_scene import PAST_SECONDS, RUN, Crew, fill
from tests.server.page.page_server import chromium, page_server

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.job import Job, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Failed, Settlement

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
                "reference": "/reference",
            }
            for page, form in _forms(browser, session):
                _take(page, server.url, pages, folder, form)
                page.context.clear_cookies()
                page.goto(server.url + "/login")
                page.screenshot(path=folder / f"login-{form}.png")
        stop()
    _odd_states(folder)


def _odd_states(folder: Path) -> None:
    """Pages of a queue without jobs, and then with names that are as long as they may be."""
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/queue.db"
        with page_server(Path(place), url) as server, chromium() as browser:
            session = _log_in(browser, server.login)
            empty = {f"empty-{name or 'overview'}": f"/{name}" for name in ("", "jobs", "failures", "hosts", "workers")}
            for page, form in _forms(browser, session):
                _take(page, server.url, empty, folder, form)
            with ThreadPoolExecutor(1) as pool:  # here, an event loop of the browser is running
                run, job = pool.submit(asyncio.run, _long_names(url)).result()
            pages = {
                "long-overview": "/",
                "long-run": f"/run?name={run}",
                "long-jobs": f"/jobs?run={run}",
                "long-job": f"/job?id={job}",
                "long-failures": "/failures",
                "long-confirm": f"/confirm?verb=cancel&run={run}",
            }
            for page, form in _forms(browser, session):
                _take(page, server.url, pages, folder, form)


async def _long_names(url: str) -> tuple[str, str]:
    """Fill a queue with jobs of long names, one of them failed; return its run and its id."""
    queue = await open_queue(url)
    run, kind, partition = "the-listings-of-all-states-" + "x" * 170, "kind_" + "k" * 90, "province-of-" + "p" * 90
    host = ".".join(["sub"] * 50) + ".test"
    await queue.submit(
        [
            new_job(
                kind,
                {"url": f"https://{host}/{number}/" + "path/" * 60, "text": "word " * 400},
                run=run,
                key=f"{number}-" + "k" * 200,
                partition=f"{partition}{number % 7}",
                host=host,
            )
            for number in range(40)
        ]
    )
    worker = WorkerId.new("a-machine-with-a-very-long-name." + "sub." * 20 + "test")
    leases = await queue.claim(Want(worker=worker, limit=5, lease=timedelta(hours=1)))
    failure = Failure("processing", "the page is another one " * 60, "shop.parse." + "Very" * 30 + "Error", False)
    outcome = Failed(failure, timedelta(0))
    await queue.settle([Settlement(lease, outcome, 1234.5) for lease in leases[:3]])
    await queue.close()
    return run, leases[0].job.id


def _forms(browser: Browser, session: StorageState) -> Iterator[tuple[Page, str]]:
    """Yield a page of each width and colour scheme, and the name of the form."""
    for width, (across, down) in WIDTHS.items():
        for scheme in SCHEMES:
            context = browser.new_context(
                storage_state=session, viewport={"width": across, "height": down}, color_scheme=scheme
            )
            yield context.new_page(), f"{width}-{scheme}"
            context.close()


def _take(page: Page, url: str, pages: dict[str, str], folder: Path, form: str) -> None:
    for name, path in pages.items():
        page.goto(url + path)
        _settled(page)
        page.screenshot(path=folder / f"{name}-{form}.png", full_page=True)


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
