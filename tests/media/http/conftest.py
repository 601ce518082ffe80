"""One server process for each test process, and the short form of the suite under faults."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from tests.media.http.server_process import ServerProcess

from longshore.media.http.connection import KEY_VARIABLE

ONE_IN = 60
"""Without `--long`, one in this many tests of the suite runs with each kind of fault."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most of the tests under faults: each of them takes seconds."""
    if config.getoption("--long"):
        return
    left_out = [
        item
        for item in items
        if item.path.name == "test_conformance_under_faults.py" and zlib.crc32(item.nodeid.encode()) % ONE_IN
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    yield process
    process.stop()


@pytest.fixture
def api_key(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of the server, as processes started by the test find it."""
    monkeypatch.setenv(KEY_VARIABLE, api_server.key)
    return api_server.key
