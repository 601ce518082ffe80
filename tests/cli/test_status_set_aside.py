"""Jobs that a queue has set aside are seen by whoever looks: `status` counts them, `doctor` warns."""

from __future__ import annotations

import json
from typing import Any


def test_what_a_folder_has_set_aside_is_counted_and_warned_of(shell: Any) -> None:
    queue = ("--queue", "./jobs")
    shell("submit", "page", "--urls-file", shell.urls(3), "--run", "r", *queue)
    assert shell.json("status", "--json", *queue)["set_aside"] == 0
    assert "set aside" not in shell("status", *queue).stdout
    victim = next((shell.folder / "jobs" / "pending").rglob("*.json"))
    victim.write_text("nonsense")
    worked = shell("work", "pages.py", "--run", "r", "--until-done", "--log-format", "json", *queue)
    lines = [json.loads(line) for line in worked.stderr.splitlines()]
    (warned,) = [line for line in lines if line["message"].startswith("Moved to rejected/")]
    assert (warned["level"], victim.name in warned["message"]) == ("warning", True)
    assert warned["worker_id"]
    counted = shell.json("status", "--json", *queue)
    assert (counted["completed"], counted["set_aside"]) == (2, 1)
    assert "set aside: 1 (" in shell("status", *queue).stdout
    checks = json.loads(shell("doctor", "--json", *queue).stdout)["checks"]
    (found,) = [check for check in checks if check["name"] == "queue"]
    assert found["verdict"] == "warn"
    assert "rejected" in json.dumps(found)


def test_a_queue_that_sets_nothing_aside_says_nothing_of_it(shell: Any) -> None:
    shell("submit", "page", "--urls-file", shell.urls(1))
    assert "set_aside" not in shell.json("status", "--json")
