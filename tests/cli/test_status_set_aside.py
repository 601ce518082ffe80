"""Rejected files of a queue are reported: `status` counts them, `doctor` warns."""

from __future__ import annotations

import json
from typing import Any


def test_rejected_files_of_a_folder_are_counted_and_cause_a_warning(shell: Any) -> None:
    queue = ("--queue", "./jobs")
    shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r", *queue)
    assert shell.json("status", "--json", *queue)["set_aside"] == 0
    assert "rejected files" not in shell("status", *queue).stdout
    victim = next((shell.folder / "jobs" / "pending").rglob("*.json"))
    victim.write_text("nonsense")
    worked = shell("work", "pages.py", "--run", "r", "--until-done", "--log-format", "json", *queue)
    lines = [json.loads(line) for line in worked.stderr.splitlines()]
    (warned,) = [line for line in lines if line["message"].startswith("Moved to rejected/")]
    assert (warned["level"], victim.name in warned["message"]) == ("warning", True)
    assert warned["worker_id"]
    counted = shell.json("status", "--json", *queue)
    assert (counted["completed"], counted["set_aside"]) == (2, 1)
    assert "rejected files: 1 (" in shell("status", *queue).stdout
    exported = shell("export", "r", "-o", "r.jsonl", *queue)
    assert exported.returncode == 0
    assert "1 file of this run was rejected or removed by hand, and is not counted" in exported.stderr
    checks = json.loads(shell("doctor", "--json", *queue).stdout)["checks"]
    (found,) = [check for check in checks if check["name"] == "queue"]
    assert found["verdict"] == "warn"
    assert "rejected" in json.dumps(found)


def test_a_queue_that_rejects_no_files_has_no_such_count(shell: Any) -> None:
    shell("submit", "page", "--urls-file", shell.urls(1))
    assert "set_aside" not in shell.json("status", "--json")
