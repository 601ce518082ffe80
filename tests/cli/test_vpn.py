"""A VPN that is required and not there (A9), seen from the command line."""

from __future__ import annotations

from typing import Any

import pytest

DOWN = {"LONGSHORE_EGRESS_INTERFACE": "tun99"}


@pytest.mark.ledger("A9")
def test_a_worker_begins_nothing_says_why_and_still_drains(shell: Any) -> None:
    shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r")
    worker = shell.start("work", "pages.py", "--run", "r", LONGSHORE_LOG_FORMAT="text", **DOWN)
    said = ""
    while "PAUSED" not in said:
        line = worker.stderr.readline()
        assert line, said
        said += line
    assert "PAUSED: the VPN check fails: there is no network interface tun99" in said
    assert said.index("initialized") < said.index("PAUSED")
    worker.terminate()
    _, rest = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "Final statistics: 0 completed" in rest
    assert shell.json("status", "r", "--json")["pending"] == 3


def test_a_profile_that_requires_none_works(shell: Any) -> None:
    shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r")
    done = shell("work", "pages.py", "--run", "r", "--until-done", "--profile", "testing", **DOWN)
    assert done.returncode == 0
    assert shell.json("status", "r", "--json")["completed"] == 3
    assert "PAUSED" not in done.stderr


def test_settings_that_cannot_be_meant_are_refused_before_anything_begins(shell: Any) -> None:
    done = shell("run", "pages.py", "--urls-file", shell.urls(3), LONGSHORE_EGRESS_FORBIDDEN="203.0.113.7")
    assert done.returncode == 2
    assert "egress_check_url" in done.stderr
    assert not (shell.folder / ".longshore" / "queue.db").exists()


def test_a_run_says_that_its_workers_wait(shell: Any) -> None:
    running = shell.start("run", "pages.py", "--urls-file", shell.urls(3), **DOWN)
    said = ""
    while "PAUSED" not in said:
        line = running.stderr.readline()
        assert line, said
        said += line
    running.terminate()
    running.communicate(timeout=60)
    assert "The workers begin once it holds" in " ".join(said.split())
