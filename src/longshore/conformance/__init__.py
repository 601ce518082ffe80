"""The test suite that every medium must pass. It needs pytest, pytest-asyncio and hypothesis; no other package uses it.

A medium joins with a `Harness`, which opens the queue and advances its clock, and with a test class:

    class TestMine(ConformanceTests, ProcessTests):
        @pytest.fixture
        def new_harness(self, tmp_path):
            return lambda: MyHarness(tmp_path)

`ProcessTests` is for media that several processes may open; the suite fails if that disagrees with the traits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.conformance.harness import Harness, NewHarness
    from longshore.conformance.suite import ConformanceTests, ProcessTests

__all__ = ["ConformanceTests", "Harness", "NewHarness", "ProcessTests"]

_SUITE = "longshore.conformance.suite"
_MODULES = {
    "ConformanceTests": _SUITE,
    "Harness": "longshore.conformance.harness",
    "NewHarness": "longshore.conformance.harness",
    "ProcessTests": _SUITE,
}


def __getattr__(name: str) -> Any:
    # Imported on use: the suite's child processes are modules of this package, and start twice as fast without pytest.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name] == _SUITE:
        import pytest

        # Before the import, so that a failed assertion shows the compared values.
        pytest.register_assert_rewrite(_SUITE)
    return getattr(importlib.import_module(_MODULES[name]), name)
