"""A `Worker` class under `longshore work`: made as its user wrote it, and asked whether it is healthy (E14)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kit.task_server import TaskServer, clean_environment

WORKER = """
import os

from longshore import Worker


class VideoWorker(Worker):
    kinds = ("video",)

    def __init__(self, api_url, worker_id, config):
        super().__init__(api_url, worker_id, config)
        self.opened = "yes"

    def health_check(self):
        if os.environ.get("ILL") == "raises":
            raise OSError("no quota left")
        return super().health_check() and not os.environ.get("ILL")

    KIND process_task(self, task):
        n = task["params"]["n"]
        return {"opened": self.opened, "by": self.worker_id, "n": n, "poll": self.config.poll_interval}
"""


def work(server: TaskServer, folder: Path, *, kind: str = "def", **variables: str) -> tuple[int, list[dict[str, Any]]]:
    (folder / "video.py").write_text(WORKER.replace("KIND", kind))
    given = {"TASKMANAGER_API_URL": server.url, "LONGSHORE_API_KEY": server.key, "WORKER_ID": "video-9"} | variables
    command = [sys.executable, "-m", "longshore", "work", "video.py", "--until-done"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=clean_environment() | {"LONGSHORE_LOG_FORMAT": "json"} | given,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, [json.loads(line) for line in err.splitlines()]


def test_a_class_with_its_own_constructor_works_in_a_child_process(server: TaskServer, tmp_path: Path) -> None:
    task = server.create("video", n=1)
    assert work(server, tmp_path, POLL_INTERVAL="4")[0] == 0
    assert server.task(task)["result"] == {"opened": "yes", "by": "video-9", "n": 1, "poll": 4.0}


def test_a_class_with_its_own_constructor_works_in_the_event_loop(server: TaskServer, tmp_path: Path) -> None:
    task = server.create("video", n=1)
    assert work(server, tmp_path, kind="async def")[0] == 0
    assert server.task(task)["result"]["by"] == "video-9"


def test_a_failed_health_check_ends_the_command_before_it_claims(server: TaskServer, tmp_path: Path) -> None:
    task = server.create("video", n=1)
    for ill in ("yes", "raises"):
        code, log = work(server, tmp_path, ILL=ill)
        assert code == 1
        said = [line["message"] for line in log]
        assert "STOPPING: the health check of VideoWorker failed" in said
        assert "Claimed work" not in said
        assert ("The health check raised an error" in said) == (ill == "raises")
    assert server.task(task)["status"] == "pending"
