"""A queue in memory, and a clock that moves when told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.top.top_scene import Scene

from longshore.clock import ManualClock
from longshore.media.memory import MemoryQueue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def scene(clock: ManualClock) -> Scene:
    return Scene(MemoryQueue(clock))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine knows of hosts is not these tests' business."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
