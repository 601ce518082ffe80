"""SIGHUP asks workers to read their settings again, and kills none of them, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")

Shell = Any

HANGS_UP_ON_ITSELF = """import atexit, os, signal
from longshore import handler

def hang_up():
    os.kill(os.getpid(), signal.SIGHUP)

hang_up()
atexit.register(hang_up)

@handler("page")
async def page(job, kit):
    return {}
"""

STARTS_SLOWLY = """import time
from longshore import handler

time.sleep(0.3)

@handler("page")
async def page(job, kit):
    while not __import__("pathlib").Path("go").exists():
        await __import__("asyncio").sleep(0.02)
"""


def work(shell: Shell, **options: Any) -> tuple[int, str]:
    """How a worker ended that was started as a supervisor starts it, and what it said."""
    shell.write("pages.py", HANGS_UP_ON_ITSELF)
    assert shell("submit", "page", "--urls-file", shell.urls(1)).returncode == 0
    place = '{"fleet":"f","number":0,"size":1}'
    log = shell.folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", "work", "pages.py", "--until-done", "--lifeline", "--place", place],
            cwd=shell.folder,
            env=shell.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            **options,
        )
    with process:
        return process.wait(timeout=60), log.read_text()


def test_a_worker_of_a_fleet_survives_it_while_it_starts_and_while_it_leaves(shell: Shell) -> None:
    code, said = work(shell)
    assert code == 0, said
    assert "1 completed" in said


def test_where_it_was_ignored_from_the_start_it_stays_so(shell: Shell) -> None:
    code, said = work(shell, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert code == 0, said
    assert "Settings read again" not in said


def test_a_fleet_passes_it_on_to_workers_that_can_hear_it_and_restarts_none(shell: Shell) -> None:
    shell.write("pages.py", STARTS_SLOWLY)
    assert shell("submit", "page", "--urls-file", shell.urls(2), "--run", "r").returncode == 0
    process = shell.start(
        "fleet", "pages.py", "--run", "r", "--workers", "2", "--stagger", "0", "--until-done", "--yes"
    )
    logs = shell.folder / "logs"

    def read(name: str) -> str:
        return (logs / name).read_text() if (logs / name).exists() else ""

    wait_until(lambda: "started (process" in read("fleet.log"))

    def all_have_heard() -> bool:
        os.kill(process.pid, signal.SIGHUP)
        return all("Settings read again" in read(f"worker_{number}.log") for number in (0, 1))

    wait_until(all_have_heard)
    (shell.folder / "go").touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "starting it again" not in out
