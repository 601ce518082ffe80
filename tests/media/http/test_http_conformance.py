"""A queue over HTTP passes the suite that every medium passes, whatever the server keeps it in."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.media.http.server_process import HttpOverPostgresHarness, HttpOverSqliteHarness, ServerProcess
from tests.services.postgres import PostgresServer

from longshore.conformance import ConformanceTests, NewHarness, ProcessTests


@pytest.mark.ledger("F1")
@pytest.mark.usefixtures("api_key")
class TestHttpOverSqlite(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, api_server: ServerProcess, tmp_path: Path) -> NewHarness:
        numbers = count()
        return lambda: HttpOverSqliteHarness(api_server, tmp_path / f"{next(numbers)}.db")


@pytest.mark.usefixtures("api_key")
class TestHttpOverPostgres(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, api_server: ServerProcess, server: PostgresServer) -> NewHarness:
        return lambda: HttpOverPostgresHarness(api_server, server.url)
