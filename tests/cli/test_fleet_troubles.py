"""A fleet whose workers, logs or handlers misbehave goes on, and leaves nothing behind (B10)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

QUICK = """from longshore import handler

@handler("target")
async def target(job):
    return {}
"""
FORKING = """import asyncio, os, pathlib, time
from longshore import handler

@handler("target", timeout=3600)
async def target(job):
    copy = os.fork()
    if copy == 0:
        time.sleep(3600)
    pathlib.Path("forked.part").write_text(str(copy))
    pathlib.Path("forked.part").rename("forked")
    await asyncio.sleep(3600)
"""
CUTTING = """import os
from longshore import handler

@handler("target")
async def target(job):
    if not os.path.exists("once"):
        open("once", "x").close()
        os._exit(CODE)
    return {}
"""


def submitted(shell: Shell, handlers: str, jobs: int = 1) -> None:
    shell.write("targets.py", handlers)
    shell.write("jobs.jsonl", "\n".join(json.dumps({"payload": {"n": n}}) for n in range(jobs)))
    done = shell("submit", "target", "--jobs-file", "jobs.jsonl", "--run", "r")
    assert done.returncode == 0, done.stderr


def fleet(shell: Shell, *arguments: str) -> subprocess.CompletedProcess[str]:
    fixed = ("--run", "r", "--until-done", "--yes", "--stagger", "0", "--lease-seconds", "5")
    return shell("fleet", "targets.py", *fixed, *arguments)


def over(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_stop_now_ends_a_worker_that_forked_and_what_it_forked(shell: Shell) -> None:
    submitted(shell, FORKING)
    with shell.start("fleet", "targets.py", "--run", "r", "--workers", "1", "--yes") as process:
        forked = shell.folder / "forked"
        wait_until(forked.exists)
        done = shell("stop", "--now")
        assert done.returncode == 0, done.stderr
        process.communicate(timeout=30)
    assert process.returncode == 130
    wait_until(lambda: over(int(forked.read_text())))


@pytest.mark.parametrize("code", [0, 2])
def test_a_handler_that_ends_the_process_of_its_worker_crashes_it_whatever_the_code(shell: Shell, code: int) -> None:
    submitted(shell, CUTTING.replace("CODE", str(code)), jobs=3)
    done = fleet(shell, "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"worker 0 ended with exit code {code}" in done.stdout
    assert "1 restart" in done.stdout
    assert shell.json("status", "r", "--json")["completed"] == 3


def test_a_run_goes_on_after_a_handler_that_ends_the_process_of_its_worker(shell: Shell) -> None:
    shell.write("targets.py", CUTTING.replace("CODE", "0"))
    shell.write("jobs.jsonl", json.dumps({"payload": {"n": 1}}))
    done = shell("run", "targets.py", "--jobs-file", "jobs.jsonl", "--workers", "1", "--lease-seconds", "5")
    assert "ended with exit code 0 in the middle of its work; starting it again" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_worker_whose_log_cannot_be_opened_is_given_up_and_the_others_do_the_work(shell: Shell) -> None:
    submitted(shell, QUICK, jobs=5)
    (shell.folder / "logs" / "worker_1.log").mkdir(parents=True)
    done = fleet(shell, "--workers", "2")
    assert done.returncode == 1
    assert "worker 1 cannot be started: " in done.stdout
    assert "1 worker given up" in done.stdout
    assert done.stderr == ""
    assert shell.json("status", "r", "--json")["completed"] == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="stands in for a disk that is full")
def test_a_log_that_cannot_be_written_is_said_once_and_the_fleet_goes_on(shell: Shell) -> None:
    submitted(shell, QUICK, jobs=5)
    (shell.folder / "logs").mkdir()
    (shell.folder / "logs" / "fleet.log").symlink_to("/dev/full")
    done = fleet(shell, "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("logs/fleet.log cannot be written: No space left on device") == 1
    assert shell.json("status", "r", "--json")["completed"] == 5
