"""A terminal is asked only where there is one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from longshore.system import terminal


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal whose foreground process this is."""
    keyboard, screen = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    yield screen
    os.close(keyboard)
    os.close(screen)


def echoes(screen: int) -> bool:
    return bool(termios.tcgetattr(screen)[3] & termios.ECHOCTL)


def test_control_keys_are_not_echoed_inside_the_block_except_on_windows(screen: int, platform: str) -> None:
    assert echoes(screen)
    with terminal.control_keys_not_echoed(screen):
        assert echoes(screen) is (platform == "windows")
    assert echoes(screen)


def test_in_the_background_a_terminal_is_left_alone(screen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: 1)
    with terminal.control_keys_not_echoed(screen):
        assert echoes(screen)


def test_a_file_is_no_terminal() -> None:
    ends = os.pipe()
    with terminal.control_keys_not_echoed(ends[1]):
        os.write(ends[1], b"x")
    assert os.read(ends[0], 1) == b"x"
    for end in ends:
        os.close(end)


ASK = "from longshore.system.terminal import has_terminal; raise SystemExit(has_terminal())"


def test_a_process_in_a_session_of_its_own_has_no_terminal() -> None:
    assert subprocess.run([sys.executable, "-c", ASK], start_new_session=True, check=False).returncode == 0


def test_a_process_that_a_terminal_was_opened_for_has_one() -> None:
    # In a process of its own: this one has threads, and must not fork.
    program = f"import os, pty, sys; status = pty.spawn([sys.executable, '-c', {ASK!r}])\n"
    program += "sys.exit(os.waitstatus_to_exitcode(status))"
    assert subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, check=False).returncode == 1


def test_on_windows_there_is_no_controlling_terminal(windows: None) -> None:
    assert not terminal.has_terminal()
