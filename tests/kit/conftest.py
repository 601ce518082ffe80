"""One server for each test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.task_server import TaskServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskServer]:
    made = TaskServer(tmp_path_factory.mktemp("server"))
    yield made
    made.kill()


@pytest.fixture(autouse=True)
def _nothing_is_left(server: TaskServer) -> Iterator[None]:
    """No task of one test is claimed in another."""
    yield
    server.call("POST", "/v1/jobs/cancel", {"where": {"run": "tasks"}})
