"""A real server that speaks Bolt and Cypher, as a process."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.services.own_packages import python_with
from tests.services.postgres import free_port

PASSWORD = "tide-and-time"


class BoltServer:
    """A server with a database `filings`, and a folder of its own."""

    def __init__(self) -> None:
        python = python_with("bolt", "make services")
        self._folder = tempfile.TemporaryDirectory(prefix="longshore-bolt-")
        self.port = free_port()
        script = Path(__file__).with_name("bolt_server.py")
        data = str(Path(self._folder.name) / "data")
        self._process = subprocess.Popen(
            [python, script, data, str(free_port()), str(self.port), PASSWORD],
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) and line.strip() != "ready":
            pass
        assert line, "the server did not start"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the recipe for this server."""
        return {
            "NEO4J_URI": f"bolt://127.0.0.1:{self.port}",
            "NEO4J_USER": "root",
            "NEO4J_PASSWORD": PASSWORD,
            "NEO4J_DATABASE": "filings",
        }

    def stop(self) -> None:
        """End it: nothing of it is needed afterwards."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
