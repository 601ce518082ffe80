"""A `process_task` ends at its timeout, plain or async, and the worker goes on with the next task (E6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.kit.task_server import TaskServer, clean_environment
from tests.waiting import wait_until

from longshore.errors import TimedOutError
from longshore.handlers import time_limit
from longshore.handlers.time_limit import TimeLimit
from longshore.system.processes import start_clock

WORKER = """
import os, signal, subprocess, sys, threading, time

import longshore.handlers.time_limit
from longshore import Worker

longshore.handlers.time_limit.GRACE_SECONDS = float(os.environ["GRACE"])


class Slow(Worker):
    kinds = ("slow",)
    timeout = 0.5
    retries = 0

    BODY


if __name__ == "__main__":
    worker = Slow(os.environ["API"], "slow-1", {"max_runs": 2, "poll_interval": 0.1})
    codes = []
    START
    sys.exit(codes[0])
"""
PLAIN = """def process_task(self, task):
        if task["params"].get("quick"):
            return "quick"
        """
ASYNC = "async " + PLAIN
IGNORING = """while True:
            try:
                time.sleep(3600)
            except Exception:
                pass
"""
ENDS = {
    "sleeping": PLAIN + "time.sleep(3600)",
    "busy": PLAIN + "while True: pass",
    "ignoring": PLAIN + IGNORING,
    "waiting for a process": PLAIN + "subprocess.run(['sleep', '3600'])",
    "waiting in C": PLAIN + "os.system('sleep 3600')",
    "reading": PLAIN + "os.read(os.pipe()[0], 1)",
    "locked": PLAIN + "threading.Event().wait()",
    "async": ASYNC + "import asyncio; await asyncio.sleep(3600)",
    "async that blocks": ASYNC + "time.sleep(3600)",
}
HERE = "codes.append(worker.run())"
IN_A_THREAD = "thread = threading.Thread(target=lambda: codes.append(worker.run())); thread.start(); thread.join()"


def work(
    server: TaskServer, folder: Path, body: str, start: str = HERE, *, grace: float = 60.0
) -> tuple[int, list[dict[str, Any]]]:
    """Run the worker. Only a task that cannot be ended takes all of the `grace`."""
    (folder / "slow.py").write_text(WORKER.replace("BODY", body).replace("START", start))
    variables = {"API": server.url, "LONGSHORE_API_KEY": server.key, "GRACE": str(grace)}
    variables["LONGSHORE_LOG_FORMAT"] = "json"
    process = subprocess.Popen(
        [sys.executable, "slow.py"],
        cwd=folder,
        env=clean_environment() | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, [json.loads(line) for line in err.splitlines()]


def sleepers() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if each.name() == "sleep"]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def check_ended(server: TaskServer, slow: str, quick: str) -> None:
    failed = server.task(slow)
    assert (failed["status"], failed["error"]["error_type"]) == ("failed", "timeout")
    assert failed["error"]["message"] == "It took longer than 0.5 seconds"
    assert server.task(quick)["result"] == "quick"


@pytest.mark.ledger("E6")
@pytest.mark.parametrize("body", ENDS.values(), ids=ENDS.keys())
def test_a_task_ends_at_its_timeout_and_the_next_is_done(server: TaskServer, tmp_path: Path, body: str) -> None:
    slow, quick = server.create("slow"), server.create("slow", quick=True)
    code, log = work(server, tmp_path, body)
    assert code == 0
    assert "Failed work" in [line["message"] for line in log]
    check_ended(server, slow, quick)


def test_a_task_ends_at_its_timeout_in_another_thread(server: TaskServer, tmp_path: Path) -> None:
    slow, quick = server.create("slow"), server.create("slow", quick=True)
    assert work(server, tmp_path, ENDS["busy"], IN_A_THREAD)[0] == 0
    check_ended(server, slow, quick)


def test_a_task_that_cannot_be_ended_is_settled_and_ends_its_process(server: TaskServer, tmp_path: Path) -> None:
    stuck = PLAIN + "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGVTALRM]); time.sleep(3600)"
    slow, quick = server.create("slow"), server.create("slow", quick=True)
    code, log = work(server, tmp_path, stuck, grace=2.5)
    assert code == 3
    assert any(line["message"].startswith("STOPPING: process_task did not end") for line in log)
    assert server.task(slow)["error"]["error_type"] == "timeout"
    assert server.task(quick)["status"] == "pending"


def test_a_process_is_killed_even_if_the_watch_over_the_timeout_began_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the thread that watches may get the processor only when the function waits in C code."""
    monkeypatch.setattr(time_limit, "GRACE_SECONDS", 30.0)

    class WatchedLate(TimeLimit):
        def _watch(self, *given: Any) -> None:
            wait_until(lambda: any(start_clock() > each.create_time() + 0.1 for each in sleepers()))
            super()._watch(*given)

    stuck: list[bool] = []

    def overdue() -> None:
        stuck.append(True)
        for each in sleepers():
            each.kill()

    with pytest.raises(TimedOutError):
        WatchedLate(0.1, TimedOutError("late"), overdue).run(lambda: os.system("exec sleep 3600"))
    assert not stuck


def test_a_task_that_cannot_be_ended_leaves_no_process(server: TaskServer, tmp_path: Path) -> None:
    """It starts one after the other, also after its timeout."""
    stuck = """import pathlib
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGVTALRM])
        while True:
            process = subprocess.Popen(["sleep", "3600"])
            with pathlib.Path("started").open("a") as file:
                file.write(f"{process.pid}\\n")
            process.wait()
"""
    server.create("slow")
    code, _ = work(server, tmp_path, PLAIN + stuck, grace=2.5)
    assert code == 3
    started = (tmp_path / "started").read_text().split()
    assert len(started) > 1
    wait_until(lambda: not any(is_running(int(each)) for each in started))


def test_a_quick_task_is_not_disturbed(server: TaskServer, tmp_path: Path) -> None:
    first, second = server.create("slow", quick=True), server.create("slow", quick=True)
    assert work(server, tmp_path, PLAIN + "pass")[0] == 0
    assert [server.task(each)["result"] for each in (first, second)] == ["quick", "quick"]


def test_the_start_of_a_process_is_compared_by_its_own_clock() -> None:
    """The clock of process starts may be up to a second behind the usual clock."""
    before = start_clock()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = psutil.Process(process.pid).create_time()
        after = start_clock()
    assert before - time_limit._CLOCK_TICK <= started <= after + time_limit._CLOCK_TICK
