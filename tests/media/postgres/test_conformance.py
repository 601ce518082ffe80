"""PostgreSQL passes the suite every medium passes."""

from __future__ import annotations

from itertools import count

import pytest
from tests.media.postgres.harness import PostgresHarness
from tests.services.postgres import PostgresServer

from longshore.conformance import ConformanceTests, NewHarness, ProcessTests

_numbers = count()


@pytest.mark.ledger("F1")
class TestPostgres(ConformanceTests, ProcessTests):
    @pytest.fixture
    def new_harness(self, server: PostgresServer) -> NewHarness:
        return lambda: PostgresHarness(f"{server.url}?schema=conform_{next(_numbers)}")
