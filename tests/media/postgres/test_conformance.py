"""PostgreSQL passes the suite every medium passes."""

from __future__ import annotations

import pytest
from tests.media.postgres.harness import PostgresHarness
from tests.services.postgres import PostgresServer

from longshore.conformance import ConformanceTests, NewHarness, ProcessTests


@pytest.mark.ledger("F1")
class TestPostgres(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, server: PostgresServer) -> NewHarness:
        return lambda: PostgresHarness(server.url)
