"""`longshore health` and `longshore logs`, and the log and the health of a single worker (A20, B7, E14)."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest
from tests.services.postgres import free_port
from tests.waiting import wait_until

from longshore.observe.health_files import HealthFile
from longshore.observe.health_report import HealthReport

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


@contextmanager
def working(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = shell.start("work", "pages.py", *arguments)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def healths(shell: Shell) -> list[Any]:
    found: list[Any] = json.loads(shell("health", "--json").stdout)["processes"]
    return found


def answer(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as found:
            return found.status, json.load(found)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


@pytest.mark.ledger("E14")
def test_a_worker_that_runs_is_ready_and_one_that_was_killed_is_not_forgotten(shell: Shell) -> None:
    done = shell("health")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("No worker, fleet or server runs with the data folder")
    with working(shell) as process:
        wait_until(lambda: any(each["ready"] for each in healths(shell)))
        (found,) = healths(shell)
        assert (found["process"], found["pid"]) == ("worker", process.pid)
        process.kill()
        process.wait()
    done = shell("health")
    assert done.returncode == 1
    assert f"process {process.pid} is gone, and did not end as it should" in done.stdout
    assert done.stdout.splitlines()[-1] == "unhealthy"


def test_a_worker_that_ends_as_it_should_leaves_no_trouble(shell: Shell) -> None:
    shell.json("submit", "page", "--urls-file", shell.urls(2), "--run", "r")
    assert shell("work", "pages.py", "--run", "r", "--until-done").returncode == 0
    assert healths(shell) == []


@pytest.mark.parametrize(("is_ready", "code", "word"), [(True, 0, "ready"), (False, 1, "not ready")])
def test_a_supervisor_is_told_whether_a_worker_can_work_not_whether_all_is_well(
    shell: Shell, is_ready: bool, code: int, word: str
) -> None:
    report = HealthReport(
        status="unhealthy", detail="the processor is 99 % busy", process="worker", pid=os.getpid(), ready=is_ready
    )
    file = HealthFile(at=time.time(), began=psutil.Process().create_time(), report=report)
    (shell.folder / ".longshore" / "health").mkdir(parents=True)
    shell.write(".longshore/health/worker-1.json", msgspec.json.encode(file).decode())
    assert shell("health").returncode == 1
    done = shell("health", "--ready")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, word)


@pytest.mark.ledger("E14")
def test_a_server_tells_its_health_to_the_machine(shell: Shell) -> None:
    process = shell.start("serve", "--port", str(free_port()))
    try:
        wait_until(lambda: [(each["process"], each["pid"]) for each in healths(shell)] == [("server", process.pid)])
        assert shell("health").returncode == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
    assert healths(shell) == []


def test_the_port_of_a_worker_answers_probes_and_scrapes(shell: Shell) -> None:
    shell.json("submit", "page", "--urls-file", shell.urls(3), "--run", "r")
    port = free_port()
    with working(shell, "--metrics-port", str(port), "--worker-id", "anna") as process:
        wait_until(lambda: answer(port, "/health/ready")[0] == 200)
        assert answer(port, "/health/live") == (200, {"status": "live"})
        wait_until(lambda: answer(port, "/health")[1]["workers"][0]["completed"] == 3)
        body = answer(port, "/health")[1]
        assert (body["process"], body["pid"], body["workers"][0]["worker"]) == ("worker", process.pid, "anna")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as found:
            assert found.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b'longshore_attempts_total{outcome="completed"} 3.0' in found.read()


def test_a_worker_that_cannot_open_its_queue_lives_and_is_not_ready(shell: Shell) -> None:
    port = free_port()
    queue = f"postgresql://127.0.0.1:{free_port()}/jobs"
    with working(shell, "--metrics-port", str(port), "--queue", queue):
        wait_until(lambda: answer(port, "/health/live")[0] == 200)
        status, body = answer(port, "/health/ready")
        assert (status, body["status"]) == (503, "unavailable")
        assert "it has not reported yet" in body["detail"]


def test_a_port_that_is_taken_is_told_before_any_work(shell: Shell) -> None:
    port = free_port()
    with working(shell, "--metrics-port", str(port)):
        wait_until(lambda: answer(port, "/health/live")[0] == 200)
        done = shell("work", "pages.py", "--metrics-port", str(port))
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.ledger("A20", "B7")
def test_a_single_worker_has_a_log_and_the_report_has_its_last_lines_and_the_failed_command(shell: Shell) -> None:
    shell.json("submit", "page", "--urls-file", shell.urls(2), "--run", "r")
    assert shell("work", "pages.py", "--run", "r", "--until-done").returncode == 0
    log = shell.folder / "logs" / "worker_single.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text()
    assert "Command: longshore work pages.py --run r --until-done" in text
    assert "Final statistics: 2 completed" in text
    assert "\x1b" not in text
    assert shell("work", "nothing.py", "--queue", "postgresql://anna:hunter22@127.0.0.1:1/jobs").returncode == 2
    report = shell("doctor", "--report", "-").stdout
    assert "longshore work nothing.py --queue" in report
    assert "exit code 2" in report
    assert "There is no handler file nothing.py" in report
    assert "Final statistics: 2 completed" in report
    assert "hunter22" not in report


def test_logs_shows_the_last_lines_of_one_worker(shell: Shell) -> None:
    done = shell("logs")
    assert done.returncode == 2
    assert "There is no log in" in done.stderr
    (shell.folder / "logs").mkdir()
    shell.write("logs/worker_0.log", "".join(f"line {number}\n" for number in range(50)) + "token=abcdef123\n")
    shell.write("logs/fleet.log", "started\n")
    assert shell("logs", "0", "--lines", "2").stdout.splitlines() == ["line 49", "token=***"]
    assert "==> logs/fleet.log <==\nstarted" in shell("logs").stdout


def test_logs_follows_a_log_through_its_rotation_and_finds_new_ones(shell: Shell) -> None:
    (shell.folder / "logs").mkdir()
    log = shell.write("logs/worker_0.log", "first\n")
    process = shell.start("logs", "--follow", "0", "--lines", "1")
    try:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["==> logs/worker_0.log <==", "first"]
        with log.open("a") as file:
            file.write("second\n")
        assert process.stdout.readline() == "second\n"
        log.rename(log.with_name("worker_0.log.1"))
        log.write_text("third\n")
        assert process.stdout.readline() == "third\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
