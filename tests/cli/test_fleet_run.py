"""What a fleet says while it runs and at its end, to the person and in its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

GATED = """import asyncio, pathlib
from longshore import handler

@handler("target", timeout=300, retries=0)
async def target(job):
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.02)
"""
FLEET = ("fleet", "targets.py", "--run", "r", "--stagger", "0", "--workers", "2", "--concurrency", "1", "--yes")


class Outside:
    """A check URL that answers with an address of our choice."""

    def __init__(self) -> None:
        outside = self
        self.address = "10.8.0.1"

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(outside.address.encode())

            def log_message(self, *_: object) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def required(self) -> dict[str, str]:
        return {
            "LONGSHORE_EGRESS_CHECK_URL": f"http://127.0.0.1:{self.server.server_port}/",
            "LONGSHORE_EGRESS_ALLOWED": "10.8.0.0/16",
            "LONGSHORE_EGRESS_EVERY": "1",
        }


@pytest.fixture
def outside() -> Iterator[Outside]:
    there = Outside()
    yield there
    there.server.shutdown()
    there.server.server_close()


@pytest.fixture
def gated(shell: Shell) -> Shell:
    """A folder with run `r`: six targets, none of which ends before there is a file `go`."""
    shell.write("targets.py", GATED)
    shell.write("jobs.jsonl", "\n".join(json.dumps({"payload": {"n": n}}) for n in range(6)))
    assert shell("submit", "target", "--jobs-file", "jobs.jsonl", "--run", "r").returncode == 0
    return shell


def log(shell: Shell, name: str = "fleet") -> str:
    path = shell.folder / "logs" / f"{name}.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def stopped(process: subprocess.Popen[str]) -> str:
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    return out


def test_a_pause_and_its_end_are_one_line_each_for_the_whole_fleet_with_the_whole_reason(
    gated: Shell, outside: Outside
) -> None:
    process = gated.start(*FLEET, **outside.required)
    wait_until(lambda: all("Claimed" in log(gated, f"worker_{number}") for number in (0, 1)))
    outside.address = "91.0.0.1"
    wait_until(lambda: all("PAUSED" in log(gated, f"worker_{number}") for number in (0, 1)))
    wait_until(lambda: "PAUSED" in log(gated))
    outside.address = "10.8.0.1"
    wait_until(lambda: "RESUMED" in log(gated))
    gated.write("go", "")
    for said in (stopped(process), log(gated)):
        assert said.count("PAUSED") == said.count("RESUMED") == 1
        assert "the public address is 91.0.0.1, which is not in egress_allowed (10.8.0.0/16). Nothing" in said


def test_a_change_of_settings_is_one_line_in_the_log_of_the_fleet(gated: Shell) -> None:
    gated.write(".env", "")
    process = gated.start(*FLEET)
    wait_until(lambda: "worker 1 started" in log(gated))
    gated.write(".env", "MAX_DELAY_SECONDS=0.2\n")
    wait_until(lambda: "Settings changed" in log(gated))
    gated.write("go", "")
    assert "Settings changed" not in stopped(process)
    assert log(gated).count("Settings changed: max_delay_seconds 0 → 0.2 (.env)") == 1


def test_what_others_did_is_in_the_state_of_the_run_and_not_in_what_the_fleet_did(gated: Shell) -> None:
    process = gated.start(*FLEET, "--until-done")
    wait_until(lambda: all("Claimed" in log(gated, f"worker_{number}") for number in (0, 1)))
    other = gated.start(
        "work", "targets.py", "--run", "r", "--until-done", "--worker-id", "other", "--concurrency", "1"
    )
    assert other.stderr is not None
    while "Claimed" not in other.stderr.readline():
        assert other.poll() is None
    gated.write("go", "")
    other.communicate(timeout=60)
    out, _ = process.communicate(timeout=60)
    jobs = gated.json("jobs", "--run", "r", "--state", "completed", "--json")
    own = sum(job["worker"] != "other" for job in jobs)
    assert own < len(jobs) == 6
    assert f"Run r: {own} completed, 0 failed by this fleet in " in out
    assert "Nothing is left to do: 6 jobs in all." in out


def test_a_fleet_that_did_nothing_has_no_rate(gated: Shell) -> None:
    process = gated.start(*FLEET)
    wait_until(lambda: all("Claimed" in log(gated, f"worker_{number}") for number in (0, 1)))
    assert gated("stop", "--now").returncode == 0
    out, _ = process.communicate(timeout=60)
    assert "0 completed, 0 failed by this fleet in " in out
    assert "/h" not in out
    assert "In all, 0 of 6 jobs are done." in out


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
def test_a_terminal_that_is_closed_while_the_fleet_stops_has_nothing_said_twice(gated: Shell) -> None:
    import pty

    leading = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    become = f"{leading}os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", become, "-m", "longshore", *FLEET],
        cwd=gated.folder,
        env=gated.environment,
        stdin=theirs,
        # Only the terminal it belongs to is closed here, and nobody needs to read it.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    wait_until(lambda: all("Claimed" in log(gated, f"worker_{number}") for number in (0, 1)))
    process.terminate()
    wait_until(lambda: "Finishing" in log(gated))
    os.close(ours)
    wait_until(lambda: "The terminal was closed." in log(gated))
    gated.write("go", "")
    assert process.wait(timeout=60) == 0
    assert log(gated).count("Finishing") == log(gated).count("The terminal was closed.") == 1
