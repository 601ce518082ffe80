"""What happens where a service that tests need is not on the machine: one rule for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.services.postgres import ServiceMissingError


@contextmanager
def needed() -> Iterator[None]:
    """Within, a service is found or started. Where it is missing the test is skipped on a laptop, and fails in CI."""
    try:
        yield
    except ServiceMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
