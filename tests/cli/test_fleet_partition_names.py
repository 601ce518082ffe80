"""Partitions of a fleet with names that no list on a command line could hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

ODD = ["a,b", " ", "CA "]


@pytest.mark.parametrize("arguments", [["--test", "--workers", "3"], ["--workers", "1"]])
def test_odd_names_are_worked_on_like_any_other(shell: Any, arguments: list[str]) -> None:
    jobs = [{"payload": {"url": f"https://a.org/{n}"}, "partition": name} for n, name in enumerate(ODD)]
    shell.write("jobs.jsonl", "\n".join(json.dumps(job) for job in jobs))
    assert shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r").returncode == 0
    done = shell("fleet", "pages.py", "--run", "r", "--stagger", "0", "--until-done", "--yes", *arguments)
    assert "STOPPING: run r is finished" in (shell.folder / "logs" / "worker_0.log").read_text(), done.stdout
    assert shell.json("status", "r", "--json")["completed"] == (2 if "--test" in arguments else 3)
    assert not list((shell.folder / ".longshore").glob("partitions*"))
