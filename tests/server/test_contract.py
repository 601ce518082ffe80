"""A real server keeps the contract that its OpenAPI document states, whatever is sent to it (schemathesis)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from longshore.server.openapi import encoded, example_application
from longshore.stored import LONGEST

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
schema = schemathesis.openapi.from_file(encoded(example_application()).decode())


class RunningServer:
    """A server process, with some jobs and a key."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "longshore", "serve", "--port", "0", "--queue", "sqlite:///served.db"]
        self._process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.url = line.partition(" at ")[2].partition("/api")[0]
        assert self.url, line
        self.key = (folder / ".longshore" / "server" / "admin.key").read_text().strip()

    def stop(self) -> None:
        """End it, and check that it lived until now."""
        lived = self._process.poll() is None
        self._process.terminate()
        self._process.communicate()
        assert lived


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("contract"))
    yield running
    running.stop()


def _without_waits(case: Case[Any]) -> None:
    """Let no request wait for a job: that would take as long as the server allows.

    A wait that the document does not allow stays as it is, because the server must refuse it.
    """
    body: dict[str, Any] = case.body if isinstance(case.body, dict) else {}
    parts: list[Any] = [body, body.get("claim"), case.query]
    for part in parts:
        for name in ("wait_seconds", "timeout_seconds"):
            if isinstance(part, dict) and isinstance(part.get(name), int | float):
                part[name] = 0 if 0 < part[name] <= LONGEST.total_seconds() else part[name]


@schema.parametrize()
@hypothesis.settings.get_profile("contract")
def test_every_route_answers_as_the_document_says(case: Case[Any], server: RunningServer) -> None:
    _without_waits(case)
    case.call_and_validate(
        base_url=server.url, headers={"Authorization": f"Bearer {server.key}"}, checks=CHECKS, timeout=30
    )
