"""Standard streams that are closed, that cannot show every sign, or that nobody reads any more."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell is needed")

Shell = Any


def sh(shell: Shell, command: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of a shell in which `longshore` is ours."""
    line = f'longshore() {{ {shlex.quote(sys.executable)} -m longshore "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", line],
        cwd=shell.folder,
        env=shell.environment | variables,
        capture_output=True,
        timeout=90,
        check=False,
    )


@pytest.fixture
def filled(shell: Shell) -> Shell:
    assert shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r").returncode == 0
    return shell


def test_without_standard_input_nobody_is_asked(filled: Shell) -> None:
    done = sh(filled, "longshore fleet pages.py --run r --workers 1 --until-done <&-")
    assert b"AttributeError" not in done.stderr
    assert b"--yes" in done.stdout + done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_fleet_works_whichever_streams_are_closed(filled: Shell, closed: str) -> None:
    done = sh(filled, f"longshore fleet pages.py --run r --workers 1 --until-done --yes {closed}")
    assert done.returncode == 0, done.stderr.decode()
    assert filled.json("status", "r", "--json")["completed"] == 3
    assert "completed" in (filled.folder / "logs" / "fleet.log").read_text()


def test_what_an_encoding_has_no_sign_for_is_replaced(filled: Shell) -> None:
    filled.write("jobs.jsonl", '{"payload": {"url": "https://a.org/x"}, "partition": "Köln→"}')
    assert filled("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r").returncode == 0
    for command in ("jobs", "status r", "fleet pages.py --run r --workers 1 --until-done --yes"):
        done = sh(filled, f"longshore {command}", PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr.decode()
        assert b"UnicodeEncodeError" not in done.stderr
    assert b"K?ln?" in done.stdout


def test_a_fleet_whose_reader_goes_away_finishes_what_is_under_way_and_says_so_in_its_log(filled: Shell) -> None:
    filled.write(
        "pages.py",
        "import asyncio, pathlib\n"
        "from longshore import handler\n"
        "@handler('page')\n"
        "async def page(job, kit):\n"
        "    while 'The reader of the output is gone' not in pathlib.Path('logs/fleet.log').read_text():\n"
        "        await asyncio.sleep(0.02)\n",
    )
    # The reader leaves once the fleet has begun; whatever the fleet says next finds nobody there.
    reader = "{ until grep -q Claimed logs/worker_0.log 2>/dev/null; do sleep 0.05; done; }"
    command = "longshore fleet pages.py --run r --workers 1 --concurrency 1 --yes"
    done = sh(filled, f"{command} | {reader}; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 141, done.stderr.decode()
    assert "The reader of the output is gone." in (filled.folder / "logs" / "fleet.log").read_text()
    status = filled.json("status", "r", "--json")
    assert (status["completed"], status["pending"]) == (1, 2)


@pytest.mark.parametrize("command", [("--help",), ("status", "--help")])
def test_help_whose_reader_goes_away_ends_like_every_command(shell: Shell, command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "longshore", *command],
        cwd=shell.folder,
        env=shell.environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
