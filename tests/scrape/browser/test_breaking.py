"""Browsers that crash, hang, or are left behind by a process that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from tests.scrape.browser.conftest import KINDS, Site
from tests.waiting import wait_until

from longshore.errors import CrashedError, TimedOutError, WorkerError
from longshore.scrape.browser import Browsers

Make = Callable[..., Browsers]


def members(root: int) -> list[psutil.Process]:
    process = psutil.Process(root)
    return [process, *process.children(recursive=True)]


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() != os.getpid()
    except psutil.NoSuchProcess:
        return True


def there(folder: str) -> bool:
    return Path(folder).is_dir()


def main_process(root: int) -> psutil.Process:
    """Return the browser's root process; with Selenium its driver is the parent."""
    return next(each for each in members(root) if "--remote-debugging" in " ".join(each.cmdline()))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_that_crashes_is_an_outcome_and_the_next_gets_a_new_browser(
    make_browsers: Make, site: Site, kind: str
) -> None:
    browsers = make_browsers(kind)
    async with browsers.page() as page:
        await page.open(f"{site.url}/plain")
        old = browsers.pids
        for each in members(old[0]):
            with suppress(psutil.NoSuchProcess):
                if "--type=renderer" in each.cmdline():
                    each.kill()
        with pytest.raises(CrashedError, match=r"the browser died.*The next job gets a new one") as caught:
            await page.html()
    assert caught.value.retryable
    async with browsers.page() as page:
        await page.open(f"{site.url}/plain")
        assert "As it was sent" in await page.html()
        assert browsers.pids != old


@pytest.mark.parametrize("kind", KINDS)
async def test_a_browser_that_died_between_two_jobs_costs_neither(make_browsers: Make, site: Site, kind: str) -> None:
    browsers = make_browsers(kind)
    async with browsers.page() as page:
        await page.open(f"{site.url}/plain")
    old = members(browsers.pids[0])
    killed = main_process(browsers.pids[0])
    killed.kill()
    await asyncio.to_thread(wait_until, lambda: gone(killed))
    async with browsers.page() as page:
        assert (await page.open(f"{site.url}/plain")).status == 200
    await browsers.close()
    await asyncio.to_thread(wait_until, lambda: all(gone(each) for each in old))


async def test_all_tabs_of_a_browser_that_dies_fail_with_it(make_browsers: Make, site: Site) -> None:
    browsers = make_browsers()
    async with browsers.page() as first, browsers.page() as second:
        await first.open(f"{site.url}/plain")
        main_process(browsers.pids[0]).kill()
        for page in (first, second):
            with pytest.raises(CrashedError):
                await page.open(f"{site.url}/plain")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_that_hangs_is_ended_and_the_next_is_served(make_browsers: Make, site: Site, kind: str) -> None:
    browsers = make_browsers(kind, timeout=timedelta(seconds=3))
    async with browsers.page() as page:
        with pytest.raises(TimedOutError, match=r"/spins did not load within 3 s"):
            await page.open(f"{site.url}/spins")
    async with browsers.page() as page:
        assert (await page.open(f"{site.url}/plain")).status == 200


async def test_a_page_that_hangs_after_it_loaded_is_noticed_too(
    make_browsers: Make, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.scrape.browser.page._GRACE_SECONDS", 0.0)
    browsers = make_browsers(timeout=timedelta(seconds=5))
    async with browsers.page() as page:
        with pytest.raises(TimedOutError, match="the browser hangs"):
            # The page begins its endless loop during one of these reads; `open` looks whether it is a block page.
            await page.open(f"{site.url}/spins-later")
            while True:
                await page.html()
    async with browsers.page() as page:
        assert (await page.open(f"{site.url}/plain")).status == 200


async def test_an_attempt_that_is_cancelled_leaves_no_tab_half_loaded(make_browsers: Make, site: Site) -> None:
    browsers = make_browsers()

    async def attempt() -> None:
        async with browsers.page() as page:
            await page.open(f"{site.url}/never")

    before = site.asked["/never"]
    running = asyncio.create_task(attempt())
    await asyncio.to_thread(wait_until, lambda: site.asked["/never"] > before)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with browsers.page() as page:
        assert (await page.open(f"{site.url}/plain")).status == 200


VICTIM = """
import asyncio, sys, psutil
from longshore.scrape.browser import Browsers

async def main():
    browsers = Browsers(sys.argv[1])
    async with browsers.page() as page:
        await page.open(sys.argv[2])
        print(*(each.pid for each in psutil.Process().children(recursive=True)), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_killed_with_9_takes_its_browser_with_it(site: Site, kind: str, tmp_path: Path) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, kind, f"{site.url}/plain"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert victim.stdout is not None
    with victim.stdout:
        processes = [psutil.Process(int(pid)) for pid in victim.stdout.readline().split()]
        assert len(processes) > 3
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    wait_until(lambda: all(gone(each) for each in processes))


SUBREAPER = """
import ctypes, sys, psutil
from longshore.scrape.browser import Browsers, SyncBrowsers

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
browsers = SyncBrowsers(Browsers(sys.argv[1], targets=1))
for _ in range(2):
    with browsers.page() as page:
        page.open(sys.argv[2])
browsers.close()
print([each.status() for each in psutil.Process().children(recursive=True)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to us on Linux only")
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_given_orphans_buries_those_of_its_browsers(site: Site, kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUBREAPER, kind, f"{site.url}/plain"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert told.stdout.splitlines()[-1] == "[]"


def test_nothing_is_imported_before_the_first_page() -> None:
    script = (
        "import sys; from longshore.scrape.browser import Browsers; Browsers(), Browsers('selenium');"
        "print({'playwright', 'selenium', 'aiohttp'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hostile", ["/alerts", "chrome://crash", "chrome://hang", "javascript:while(1){}"])
async def test_what_one_page_does_is_not_the_next_ones_trouble(
    make_browsers: Make, site: Site, kind: str, hostile: str
) -> None:
    """With Selenium, endless dialogs once failed every job until the browser was replaced."""
    browsers = make_browsers(kind, timeout=timedelta(seconds=5))
    with suppress(WorkerError):
        async with browsers.page() as page:
            await page.open(f"{site.url}{hostile}" if hostile.startswith("/") else hostile)
            await page.html()
    async with browsers.page() as page:
        await page.open(f"{site.url}/plain")
        assert "As it was sent" in await page.html()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_driver_that_is_killed_leaves_neither_processes_nor_a_profile(
    make_browsers: Make, site: Site, kind: str
) -> None:
    browsers = make_browsers(kind)
    before = set(psutil.Process().children())
    async with browsers.page() as page:
        await page.open(f"{site.url}/plain")
        left = members(browsers.pids[0])
        command = main_process(browsers.pids[0]).cmdline()
        (profile,) = (each.partition("=")[2] for each in command if each.startswith("--user-data-dir="))
        assert there(profile)
        # Playwright's driver process, or Selenium's lifeline, the only parent of the driver.
        (driver,) = set(psutil.Process().children()) - before
        driver.kill()
        wait_until(lambda: gone(driver) or driver.status() == psutil.STATUS_ZOMBIE)
    await browsers.close()
    assert not [each for each in left if not gone(each)]
    assert not there(profile)
