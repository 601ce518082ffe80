"""`longshore stop`: a fleet is ended from another terminal (B7)."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

SLOW = """import asyncio
from longshore import handler

@handler("target", timeout=3600)
async def target(job):
    await asyncio.sleep(job.payload["seconds"])
"""


@pytest.fixture
def running(shell: Shell, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A fleet of one worker in the middle of a job, with another one waiting."""
    seconds = getattr(request, "param", 3600)
    shell.write("slow.py", SLOW)
    jobs = [{"payload": {"n": n, "seconds": seconds}} for n in range(2)]
    shell.write("jobs.jsonl", "\n".join(json.dumps(job) for job in jobs))
    assert shell("submit", "target", "--jobs-file", "jobs.jsonl", "--run", "r").returncode == 0
    process = shell.start("fleet", "slow.py", "--run", "r", "--workers", "1", "--concurrency", "1", "--yes")
    log, pause = shell.folder / "logs" / "worker_0.log", threading.Event()
    while process.poll() is None and not (log.exists() and "Claimed" in log.read_text()):
        pause.wait(0.05)
    workers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    yield process
    process.kill()
    # A worker whose fleet was killed finishes what it holds, which may take an hour here.
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    process.communicate()


@pytest.mark.parametrize("running", [2], indirect=True)
def test_it_lets_the_fleet_finish_what_it_holds_and_says_when_it_is_over(
    shell: Shell, running: subprocess.Popen[str]
) -> None:
    done = shell("stop")
    assert done.returncode == 0, done.stderr
    assert "Stopping the fleet of 1 worker" in done.stdout
    assert "It is over." in done.stdout
    out, _ = running.communicate(timeout=10)
    assert running.returncode == 0
    assert "1 completed" in out
    assert shell.json("status", "r", "--json")["pending"] == 1


def test_now_gives_everything_back(shell: Shell, running: subprocess.Popen[str]) -> None:
    done = shell("stop", "--now")
    assert done.returncode == 0, done.stderr
    running.communicate(timeout=10)
    assert running.returncode == 130
    assert shell.json("status", "r", "--json")["pending"] == 2


def test_now_hastens_a_stop_that_is_under_way(shell: Shell, running: subprocess.Popen[str]) -> None:
    gentle = shell.start("stop")
    assert gentle.stdout is not None
    assert running.stdout is not None
    while "Finishing" not in running.stdout.readline():
        pass
    assert shell("stop", "--now").returncode == 0
    out, _ = gentle.communicate(timeout=10)
    assert gentle.returncode == 0
    assert "It is over." in out


def test_it_finds_a_fleet_whose_file_was_removed(shell: Shell, running: subprocess.Popen[str]) -> None:
    (shell.folder / ".longshore" / "fleet.json").unlink()
    done = shell("stop", "--now")
    assert done.returncode == 0, done.stderr
    assert "Stopping the fleet: giving back" in done.stdout
    running.communicate(timeout=10)
    assert running.returncode == 130


@pytest.mark.parametrize("content", [b'{"pid": -1, "run": null, "workers": 1}', b"\xff\xfe"])
def test_a_file_that_makes_no_sense_tells_of_no_fleet(shell: Shell, content: bytes) -> None:
    (shell.folder / ".longshore").mkdir()
    (shell.folder / ".longshore" / "fleet.json").write_bytes(content)
    done = shell("stop")
    assert done.returncode == 1
    assert "No fleet runs in this folder." in done.stderr


def test_where_no_fleet_runs_it_says_so(shell: Shell) -> None:
    done = shell("stop")
    assert done.returncode == 1
    assert "No fleet runs in this folder." in done.stderr
    assert done.stdout == ""


def test_a_fleet_that_was_killed_is_not_waited_for(shell: Shell, running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait()
    done = shell("stop")
    assert done.returncode == 1
    assert "is gone and did not say goodbye" in done.stderr
