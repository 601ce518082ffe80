"""The search for a browser, and the error if there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest

from longshore.errors import CrashedError
from longshore.scrape.browser import BrowserMissingError, Browsers, find_browser
from longshore.scrape.browser.find_browser import find_chromedriver

MODULE = sys.modules[find_browser.__module__]
"""The package exports the function under the name of its module, so an import would find the function."""


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no browser; its programs are in the folder `bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.setenv("SE_CACHE_PATH", str(tmp_path / "selenium"))
    monkeypatch.setattr(MODULE, "_PLACES", {})
    return tmp_path


def program(path: Path, version: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_systems_browser_is_found_by_any_of_its_names(bare_machine: Path) -> None:
    chrome = program(bare_machine / "bin" / "google-chrome")
    assert (find_browser().path, find_browser().origin) == (chrome, "system")
    chromium = program(bare_machine / "bin" / "chromium")
    assert find_browser().path == chromium


def test_playwright_prefers_its_own_newest_and_selenium_the_systems(bare_machine: Path) -> None:
    system = program(bare_machine / "bin" / "chromium")
    program(bare_machine / "playwright" / "chromium-999" / "chrome-linux" / "chrome")
    newest = program(bare_machine / "playwright" / "chromium-1200" / "chrome-linux" / "chrome")
    assert find_browser(kind="playwright").path == newest
    assert find_browser(kind="selenium").path == system
    shell = program(bare_machine / "playwright" / "chromium_headless_shell-1100" / "x" / "headless_shell")
    assert find_browser().path == shell


def test_one_that_selenium_fetched_before_is_found(bare_machine: Path) -> None:
    fetched = program(bare_machine / "selenium" / "chrome" / "linux64" / "150.0.1" / "chrome")
    assert (find_browser(kind="selenium").path, find_browser(kind="selenium").origin) == (fetched, "selenium")


def test_a_named_browser_is_used_and_nothing_else(bare_machine: Path) -> None:
    program(bare_machine / "bin" / "chromium")
    named = program(bare_machine / "mine")
    assert find_browser(named).path == named
    with pytest.raises(BrowserMissingError, match="The browser nowhere does not exist or is no program"):
        find_browser("nowhere")


def test_no_browser_is_one_clear_message_with_the_fix(bare_machine: Path) -> None:
    with pytest.raises(BrowserMissingError, match=r"no browser.*Fix: install one \(Debian: apt-get install") as caught:
        find_browser()
    assert caught.value.retryable


@pytest.mark.parametrize("kind", ["playwright", "selenium"])
async def test_a_library_that_is_not_installed_is_one_message_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, kind: Literal["playwright", "selenium"]
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    monkeypatch.setattr(MODULE, "find_spec", lambda _: None)
    browsers = Browsers(kind)
    with pytest.raises(
        BrowserMissingError, match=rf"needs {kind}, which is not installed. Fix: pip install '.\[browser"
    ):
        async with browsers.page():
            pass
    await browsers.close()


def test_a_driver_of_another_version_is_not_used(bare_machine: Path) -> None:
    browser = program(bare_machine / "bin" / "chromium", "Chromium 150.0.1 built on Debian 12")
    assert find_chromedriver(browser) is None
    driver = program(bare_machine / "bin" / "chromedriver", "ChromeDriver 150.0.9 (abc)")
    assert find_chromedriver(browser) == driver
    program(bare_machine / "bin" / "chromedriver", "ChromeDriver 149.0.9 (abc)")
    assert find_chromedriver(browser) is None


async def test_where_playwright_can_fetch_none_the_message_says_why_and_what_to_do(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = bare_machine / "python"
    python.write_text('#!/bin/sh\necho "Downloading $4"\necho "Error: Download failure, code=1"\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    browsers = Browsers()
    with pytest.raises(BrowserMissingError, match=r"fetched \(Error: Download failure, code=1\)\. Fix: install one"):
        async with browsers.page():
            pass
    await browsers.close()


async def test_where_selenium_manager_can_fetch_none_the_message_says_why_and_what_to_do(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_machine / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("SE_PROXY", "http://127.0.0.1:9")
    browsers = Browsers("selenium")
    with pytest.raises(BrowserMissingError, match=r"none could be fetched \(.+\)\. Fix: install one"):
        async with browsers.page():
            pass
    await browsers.close()


async def test_a_browser_that_does_not_start_says_what_it_complained_about(bare_machine: Path) -> None:
    broken = bare_machine / "broken"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libnss3.so' >&2\nexit 127\n")
    broken.chmod(0o755)
    browsers = Browsers(path=str(broken))
    with pytest.raises(CrashedError, match=r"did not start.*libnss3\.so"):
        async with browsers.page():
            pass
    await browsers.close()
