"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form of the proofs: more jobs, more kills")


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a proof is asked for."""
    return bool(request.config.getoption("--long"))
