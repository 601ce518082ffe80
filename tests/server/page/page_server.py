"""`longshore serve` as a process, and a browser at its page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from longshore.scrape.browser import find_browser
from longshore.scrape.browser.command_line import arguments


class PageServer:
    """A server process for the queue of a folder."""

    def __init__(self, folder: Path, queue: str, *options: str) -> None:
        self.folder = folder
        self.queue = queue
        command = [sys.executable, "-m", "longshore", "serve", "--queue", queue, "--port", "0", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)
        self.url = self.login = ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"(https?://\S+)/login\?code=\S+", line):
                self.url, self.login = found[1], found[0]
            if "LONGSHORE_API_KEY" in line or "read-only" in line:
                break
        assert self.login, "the server printed no login link"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@contextmanager
def page_server(folder: Path, queue: str, *options: str) -> Iterator[PageServer]:
    """Within, the queue is served."""
    server = PageServer(folder, queue, *options)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Within, there is a browser."""
    quiet = arguments(blocked=frozenset(), proxy_server=None, user_agent=None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser().path, args=quiet)
        try:
            yield browser
        finally:
            browser.close()
