"""Every page, light and dark, wide and at phone width, passes axe-core without a serious fault."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, StorageState, expect
from tests.server.page.fleet_scene import RUN, fill
from tests.server.page.page_server import chromium, page_server
from tests.services.chromium import need_chromium

from longshore.job import State
from longshore.media import open_queue
from longshore.queue import Selection

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
LOOKS: list[tuple[Any, tuple[int, int]]] = [("light", (1280, 900)), ("dark", (390, 844)), ("dark", (1280, 900))]
PATHS = (
    "/", f"/run?name={RUN}", "/job?id={failed}", "/job?id={failed}&bulk=x", f"/jobs?run={RUN}&state=failed", "/jobs",
    "/failures", "/hosts", "/workers", "/submit", f"/confirm?verb=retry&run={RUN}&state=failed",
    "/run?name=missing", "/submit?kind=page", "/jobs?q=nothing-like-it", f"/run/records?name={RUN}", "/login",
    "/job?id={done}", "/job/records?id={done}", "/reference", f"/confirm?verb=pause&run={RUN}", "/login?code=used-up",
)  # fmt: skip


class Site:
    def __init__(self, url: str, browser: Browser, session: StorageState, jobs: dict[str, str]) -> None:
        self.url, self.browser, self.session, self.jobs = url, browser, session, jobs


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_chromium()
    folder = tmp_path_factory.mktemp("busy")
    url, jobs = f"sqlite:///{folder}/queue.db", dict[str, str]()

    async def prepare() -> None:
        queue = await open_queue(url)
        jobs["failed"] = (await fill(queue, folder / ".longshore", cities=6)).id
        (done,) = await queue.jobs(Selection(run=RUN, states=frozenset({State.COMPLETED})), limit=1)
        jobs["done"] = done.id
        await queue.close()

    thread = threading.Thread(target=lambda: asyncio.run(prepare()))
    thread.start()
    thread.join()
    with page_server(folder, url) as server, chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.login)
        expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        session = context.storage_state()
        context.close()
        yield Site(server.url, browser, session, jobs)


@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_no_page_has_a_serious_fault(site: Site, scheme: Any, size: tuple[int, int]) -> None:
    context = site.browser.new_context(
        storage_state=site.session,
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    page = context.new_page()
    faults = {}
    for path in PATHS:
        page.goto(site.url + path.format(**site.jobs))
        expect(page.get_by_role("main")).to_be_visible()
        page.evaluate(AXE + "; null")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        serious = [
            (each["id"], [node["html"][:160] for node in each["nodes"]][:4])
            for each in found
            if each["impact"] in {"serious", "critical"}
        ]
        if wide > 0:
            serious.append(("the page scrolls sideways", [str(wide)]))
        if serious:
            faults[path] = serious
    context.close()
    assert faults == {}
