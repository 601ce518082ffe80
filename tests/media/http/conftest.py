"""One server process for each test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.media.http.server_process import ServerProcess

from longshore.media.http.connection import KEY_VARIABLE


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
