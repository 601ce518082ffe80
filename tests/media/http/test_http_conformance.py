"""A queue over HTTP passes the suite that every medium passes, whatever the server keeps it in."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.media.http.server_process import HttpOverSqliteHarness, ServerProcess

from longshore.conformance import ConformanceTests, NewHarness, ProcessTests


@pytest.mark.usefixtures("api_key")
class TestHttpOverSqlite(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, api_server: ServerProcess, tmp_path: Path) -> NewHarness:
        numbers = count()
        return lambda: HttpOverSqliteHarness(api_server, tmp_path / f"{next(numbers)}.db")
