"""What the tests of the operating system's mechanisms share."""

from __future__ import annotations

import pytest
from tests.windows import SYSTEM, become_windows


@pytest.fixture(params=["posix", "windows"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs once by the branch of this system and once by that of Windows."""
    name = str(request.param)
    if name == "windows":
        become_windows(monkeypatch, *SYSTEM)
    return name
