"""The page in a real browser, with a real server and a real worker: from the first login to a failure that succeeds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect
from tests.server.page.fleet_scene import picture
from tests.server.page.page_server import PageServer, chromium, page_server
from tests.services.chromium import need_chromium

from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Failed, Settlement
from longshore.queue import Queue
from longshore.server.auth.keys import KeyStore, Scope

# A busy machine takes longer than the usual 5 seconds; what is expected ends the wait.
expect.set_options(timeout=30_000)
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
LEASE = timedelta(minutes=10)
HANDLERS = """
import asyncio
from pathlib import Path

from longshore import handler


@handler("page", retries=0)
async def page(n: int, kit):
    await asyncio.sleep(0.02)
    if n == 13 and not Path("repaired").exists():
        raise KeyError("phone")
    return {"n": n}
"""


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own: the test itself drives the browser without one."""
    import threading

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return results[0]


class Team:
    """A served queue, and what people do with it."""

    def __init__(self, server: PageServer, browser: Browser, session: StorageState) -> None:
        self.server, self.browser, self.session = server, browser, session
        self.folder, self.queue = server.folder, server.queue

    def visit(self, size: str, path: str = "/") -> Page:
        """Return a page of this size, logged in as admin."""
        width, height = SIZES[size]
        context = self.browser.new_context(
            storage_state=self.session, viewport={"width": width, "height": height}, has_touch=size == "phone"
        )
        page = context.new_page()
        page.goto(self.server.url + path)
        return page

    def submit(self, run_name: str, number: int, *, kind: str = "page") -> None:
        async def work() -> None:
            queue = await open_queue(self.queue)
            await queue.submit([new_job(kind, {"n": n}, run=run_name, key=str(n)) for n in range(number)])
            await queue.close()

        run(work())

    def fail_all(self, run_name: str) -> None:
        async def work() -> None:
            queue: Queue = await open_queue(self.queue)
            worker = WorkerId("w", "w")
            failure = Failure("unknown", "no price", "ValueError", retryable=False)
            while leases := await queue.claim(Want(worker=worker, run=run_name, limit=1000, lease=LEASE)):
                await queue.settle([Settlement(lease, Failed(failure), 0.1) for lease in leases])
            await queue.close()

        run(work())

    def work(self, run_name: str) -> None:
        """Let a real worker finish the run."""
        command = [sys.executable, "-m", "longshore", "work", "pages.py", "--run", run_name, "--queue", self.queue]
        subprocess.run([*command, "--until-done"], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    need_chromium()
    folder = tmp_path_factory.mktemp("team")
    (folder / "pages.py").write_text(HANDLERS)
    with page_server(folder, f"sqlite:///{folder}/queue.db") as server, chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.login)
        # The page of the login leads on by itself, to a queue without jobs.
        expect(page.get_by_text("There are no jobs yet.")).to_be_visible()
        session = context.storage_state()
        context.close()
        yield Team(server, browser, session)


def test_the_login_link_logs_in_once_and_a_key_later(team: Team) -> None:
    page = team.browser.new_page()
    page.goto(team.server.login)
    expect(page.get_by_role("alert")).to_contain_text("was used")
    key = KeyStore(team.folder / ".longshore" / "server" / "keys.json").add("anna", [Scope.READ], 0.0)
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.get_by_text("anna").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Key")).to_be_visible()
    page.close()


@pytest.mark.ledger("F7")
@pytest.mark.parametrize("size", SIZES)
def test_a_run_goes_from_nothing_to_done_and_a_failure_is_retried_without_a_reload(team: Team, size: str) -> None:
    name = f"live-{size}"
    (team.folder / "repaired").unlink(missing_ok=True)
    team.submit(name, 60)
    page = team.visit(size, f"/run?name={name}")
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.evaluate("window.kept = true")
    headline = page.locator("#headline")
    expect(headline).to_contain_text("0 of 60 done")
    team.work(name)
    expect(headline).to_contain_text("60 of 60 done")
    expect(headline).to_contain_text("1 failed")
    failures = page.locator("#failures")
    expect(failures).to_contain_text("KeyError: 'phone'", timeout=15_000)
    assert page.evaluate("window.kept"), "the page was loaded again"
    (bundle,) = [
        each for each in (team.folder / ".longshore/bundles").iterdir() if each.name.startswith(f"live_{size}")
    ]
    (bundle / "screenshot.png").write_bytes(picture())
    failures.get_by_role("link", name="Example").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
    shot = page.get_by_alt_text("Screenshot")
    shot.scroll_into_view_if_needed()
    expect(shot).to_be_visible()
    expect(shot).to_have_js_property("naturalWidth", 640)
    expect(page.get_by_text("longshore replay")).to_be_visible()
    page.evaluate("window.kept = true")
    page.get_by_role("link", name="Retry", exact=True).click()
    (team.folder / "repaired").write_text("")
    page.get_by_role("dialog").get_by_role("button", name="Retry 1 job").click()
    expect(page.get_by_role("status").filter(has_text="pending again")).to_be_visible()
    team.work(name)
    expect(page.get_by_role("heading", level=1)).to_contain_text("completed")
    assert faults == []
    page.context.close()


@pytest.mark.ledger("D9")
@pytest.mark.parametrize("size", SIZES)
def test_a_run_is_paused_and_resumed(team: Team, size: str) -> None:
    name = f"paused-{size}"
    team.submit(name, 10)
    page = team.visit(size, f"/run?name={name}")
    page.get_by_role("link", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#headline")).to_contain_text("Workers take no new jobs")
    expect(page.locator("#needs")).to_contain_text("is paused since")
    page.locator("#headline").get_by_role("link", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.locator("#headline").get_by_role("link", name="Pause")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_five_thousand_failed_jobs_are_retried_at_once(team: Team, size: str) -> None:
    name = f"failed-{size}"
    team.submit(name, 5000)
    team.fail_all(name)
    page = team.visit(size, f"/jobs?run={name}&state=failed")
    page.get_by_role("link", name="Retry all that match").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 5,000 jobs?")
    dialog.get_by_role("button", name="Retry 5,000 jobs").click()
    expect(page.get_by_role("status").filter(has_text="5,000 jobs are pending again.")).to_be_visible(timeout=30_000)
    page.reload()
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.context.close()


def test_a_selection_of_jobs_is_cancelled_by_keyboard(team: Team) -> None:
    team.submit("chosen", 10)
    page = team.visit("wide", "/jobs?run=chosen")
    for key in "jxjjx":
        page.keyboard.press(key)
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_role("status").filter(has_text="2 jobs are cancelled.")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="cancelled")).to_have_count(2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type('"n":7')
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=*")
    page.context.close()


def test_the_page_can_be_read_and_used_without_scripts(team: Team) -> None:
    team.submit("plain", 5)
    context = team.browser.new_context(storage_state=team.session, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{team.server.url}/run?name=plain")
    expect(page.locator("#headline")).to_contain_text("0 of 5 done")
    page.get_by_role("link", name="Cancel the rest").click()
    page.get_by_role("button", name="Cancel 5 jobs").click()
    page.goto(f"{team.server.url}/jobs?run=plain&state=cancelled")
    expect(page.get_by_role("row").filter(has_text="cancelled")).to_have_count(5)
    context.close()


def test_the_first_page_is_small_and_nothing_in_it_moves(team: Team) -> None:
    team.submit("still", 20)
    page = team.visit("wide", "/jobs")
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    received: list[float] = []
    session.on("Network.loadingFinished", lambda each: received.append(each["encodedDataLength"]))
    page.add_init_script(
        "window.moved = 0;"
        "new PerformanceObserver(list => list.getEntries().forEach(each => window.moved += each.value))"
        ".observe({type: 'layout-shift', buffered: true})"
    )
    for number, (path, part) in enumerate((("/", "#runs"), ("/run?name=still", "#headline")), 1):
        received.clear()
        page.goto(team.server.url + path)
        expect(page.locator("#live")).to_contain_text("live")
        assert 10_000 < sum(received) < 100_000
        team.submit("still", 20 + number)
        expect(page.locator(part)).to_contain_text(f"0 of {20 + number}")
        assert page.evaluate("window.moved") < 0.1, path
    page.context.close()
