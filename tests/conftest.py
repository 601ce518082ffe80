"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("longshore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("longshore")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form of the proofs: more jobs, more kills")


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a proof is asked for."""
    return bool(request.config.getoption("--long"))
