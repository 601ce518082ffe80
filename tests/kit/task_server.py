"""A real server process on a SQLite queue, and calls of its plain task routes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from longshore.settings import TABLE


def clean_environment() -> dict[str, str]:
    """The environment without any setting."""
    ours = {name for setting in TABLE.values() for name in setting.variables}
    return {name: value for name, value in os.environ.items() if name not in ours}


class TaskServer:
    """`longshore serve`, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.queue = f"sqlite:///{folder}/served.db"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = int(taken.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.process = self._started()
        self.key = (folder / ".longshore" / "server" / "admin.key").read_text().strip()

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "longshore", "serve", "--queue", self.queue, "--port", str(self.port)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert self.url in process.stdout.readline(), "the server did not start"
        return process

    def kill(self) -> None:
        """End the process with signal 9."""
        self.process.kill()
        self.process.communicate()

    def start(self) -> None:
        """Start it again, on the same port and queue."""
        self.process = self._started()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def create(self, kind: str, **params: Any) -> str:
        """Create a task, and return its id."""
        status, task = self.call("POST", "/tasks", {"type": kind, "params": params})
        assert status == 201, task
        return str(task["id"])

    def task(self, task_id: str) -> Any:
        """Return a task as it is now."""
        status, task = self.call("GET", f"/tasks/{task_id}")
        assert status == 200, task
        return task
