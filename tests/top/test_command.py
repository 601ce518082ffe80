"""`longshore top` as a command: in a terminal, and where there is none."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.top.top_scene import Scene
from tests.waiting import wait_until

from longshore.media import open_queue
from longshore.settings import TABLE

COMMAND = [sys.executable, "-m", "longshore", "top"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    ours = {name for setting in TABLE.values() for name in setting.variables}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"TERM": "xterm-256color", "XDG_CACHE_HOME": str(tmp_path / "cache"), "LINES": "30", "COLUMNS": "100"}


async def fill(url: str) -> None:
    queue = await open_queue(url)
    scene = Scene(queue)
    await scene.submit(4, run="nightly")
    await scene.fail(1)
    await queue.close()


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 65536)
            except OSError:
                return
            if not part:
                return
            self.shown += part

    def shows(self, text: str) -> bool:
        return text.encode() in self.shown

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(10)
        os.close(self._ours)


@contextmanager
def terminal(arguments: list[str], folder: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(arguments, folder, environment)
    try:
        yield opened
    finally:
        opened.close()


def test_without_a_terminal_it_points_to_status(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        COMMAND, cwd=tmp_path, env=environment, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("longshore: `longshore top` needs a terminal")
    assert "`longshore status`" in done.stderr


def test_other_commands_do_not_wait_for_what_only_this_one_needs() -> None:
    looked = "import sys, longshore.cli.app; print('textual' in sys.modules, 'longshore.top' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True).stdout == (
        "False False\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
class TestInATerminal:
    def test_it_shows_the_queue_and_leaves_the_terminal_as_it_was(
        self, tmp_path: Path, environment: dict[str, str]
    ) -> None:
        asyncio.run(fill(f"sqlite:///{tmp_path}/q.db"))
        with terminal(["--queue", "sqlite:///q.db"], tmp_path, environment) as shown:
            wait_until(lambda: shown.shows("1/4"))
            assert shown.shows("nightly")
            shown.press(b"q")
            assert shown.process.wait(60) == 0
            wait_until(lambda: shown.shows("\x1b[?1049l"))

    def test_a_request_to_end_leaves_the_terminal_as_it_was(self, tmp_path: Path, environment: dict[str, str]) -> None:
        asyncio.run(fill(f"sqlite:///{tmp_path}/q.db"))
        with terminal(["nightly", "--queue", "sqlite:///q.db"], tmp_path, environment) as shown:
            wait_until(lambda: shown.shows("1/4"))
            shown.process.send_signal(signal.SIGTERM)
            assert shown.process.wait(60) == 0
            wait_until(lambda: shown.shows("\x1b[?1049l"))

    def test_a_run_that_is_not_there_is_refused_before_anything_is_drawn(
        self, tmp_path: Path, environment: dict[str, str]
    ) -> None:
        asyncio.run(fill(f"sqlite:///{tmp_path}/q.db"))
        with terminal(["weekly", "--queue", "sqlite:///q.db"], tmp_path, environment) as shown:
            assert shown.process.wait(60) == 2
            wait_until(lambda: shown.shows("There is no run 'weekly'"))
            assert not shown.shows("\x1b[?1049h")
