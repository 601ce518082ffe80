"""`longshore work`: the flags that make it stop, and what it says then (A4, A12, E16)."""

from __future__ import annotations

import json
import socket

import pytest

from .conftest import Shell


@pytest.fixture
def filled(shell: Shell) -> Shell:
    shell.urls(10)
    assert shell("submit", "page", "--urls-file", "urls.txt", "--run", "r").returncode == 0
    return shell


def test_it_stops_after_so_many_jobs_and_says_so(filled: Shell) -> None:
    done = filled("work", "pages.py", "--max-work", "4", "--log-format", "text", "--worker-id", "kitchen")
    assert done.returncode == 0, done.stderr
    assert "Worker kitchen initialized" in done.stderr
    assert "STOPPING: reached the limit of 4 jobs" in done.stderr
    assert "\x1b" not in done.stderr
    assert filled.json("status", "r", "--json")["completed"] == 4


def test_the_limit_of_the_environment_is_the_same(filled: Shell) -> None:
    done = filled("work", "pages.py", MAX_WORK_ORDERS="3", WORKER_ID="cellar", LONGSHORE_LOG_FORMAT="json")
    assert done.returncode == 0, done.stderr
    assert filled.json("status", "r", "--json")["completed"] == 3
    assert {job["worker"] for job in filled.json("jobs", "--state", "completed", "--json")} == {"cellar"}
    assert all(json.loads(line)["worker_id"] == "cellar" for line in done.stderr.splitlines())


@pytest.mark.parametrize("option", ["--max-empty-polls", "--max-failures"])
def test_it_ends_with_1_after_so_many_looks_at_a_queue_that_it_never_reached(shell: Shell, option: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"postgresql://127.0.0.1:{free.getsockname()[1]}/none"
    done = shell("work", "pages.py", option, "2", "--until-done", "--queue", url, "--log-format", "text")
    assert done.returncode == 1, done.stderr
    assert "STOPPING: no work in 2 looks in a row: the queue is out of reach (" in done.stderr


@pytest.mark.parametrize("option", ["--max-empty-polls", "--max-failures"])
def test_it_stops_after_so_many_empty_looks(shell: Shell, option: str) -> None:
    done = shell("work", "pages.py", option, "2", "--poll-interval", "0.05", "--log-format", "text")
    assert done.returncode == 0, done.stderr
    assert "No work available" in done.stderr
    assert "STOPPING: no work in 2 looks in a row" in done.stderr


def test_it_stops_after_so_long_without_work(shell: Shell) -> None:
    done = shell("work", "pages.py", "--max-idle-hours", "0.00001", "--poll-interval", "0.05", "--log-format", "text")
    assert done.returncode == 0, done.stderr
    assert "STOPPING: no work for" in done.stderr


def test_it_stops_when_its_run_is_done_and_leaves_others_alone(filled: Shell) -> None:
    filled("submit", "page", "--urls-file", "urls.txt", "--run", "other")
    done = filled("work", "pages.py", "--run", "r", "--until-done", "--log-format", "text")
    assert done.returncode == 0, done.stderr
    assert "STOPPING: run r is finished" in done.stderr
    assert filled.json("status", "other", "--json")["pending"] == 10


def test_a_run_to_finish_that_never_was_is_refused(filled: Shell) -> None:
    done = filled("work", "pages.py", "--run", "nosuchrun", "--until-done")
    assert done.returncode == 2
    assert "There is no run 'nosuchrun' in sqlite:///.longshore/queue.db. The latest are: r." in done.stderr


def test_a_run_that_may_still_come_is_waited_for_and_that_is_said_once(filled: Shell) -> None:
    waiting = ("--max-failures", "3", "--poll-interval", "0.05", "--log-format", "json")
    done = filled("work", "pages.py", "--run", "later", *waiting)
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert [entry["message"] for entry in entries].count("Run later has no jobs yet; waiting for them") == 1
    assert all(entry["worker_id"] for entry in entries)
    done = filled("work", "pages.py", "--run", "r", *waiting)
    assert "no jobs yet" not in done.stderr


def test_it_takes_only_its_partitions(filled: Shell) -> None:
    filled("submit", "page", "--urls-file", "urls.txt", "--run", "p", "--partition", "CA")
    done = filled("work", "pages.py", "--partitions", "CA,TX", "--until-done", "--kinds", "page")
    assert done.returncode == 0, done.stderr
    assert filled.json("status", "p", "--json")["completed"] == 10
    assert filled.json("status", "r", "--json")["completed"] == 0


def test_the_old_name_of_the_queue_flag_is_understood(filled: Shell) -> None:
    done = filled("work", "pages.py", "--api-url", "sqlite:///.longshore/queue.db", "--until-done")
    assert done.returncode == 0, done.stderr
    assert filled.json("status", "r", "--json")["completed"] == 10
