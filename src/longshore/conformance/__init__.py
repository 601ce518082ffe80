"""The suite that every medium passes. It needs pytest, pytest-asyncio and hypothesis; nothing else imports it.

A medium joins by describing how it is opened and how its time is moved (`Harness`), and by naming a test class:

    class TestMine(ConformanceTests, ProcessTests):
        @pytest.fixture
        def new_harness(self, tmp_path):
            return lambda: MyHarness(tmp_path)

`ProcessTests` is for media that several processes may open; the suite fails where that disagrees with the traits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.conformance.harness import Harness, NewHarness
    from longshore.conformance.suite import ConformanceTests, ProcessTests

__all__ = ["ConformanceTests", "Harness", "NewHarness", "ProcessTests"]

_SUITE = "longshore.conformance.suite"
_HOMES = {
    "ConformanceTests": _SUITE,
    "Harness": "longshore.conformance.harness",
    "NewHarness": "longshore.conformance.harness",
    "ProcessTests": _SUITE,
}


def __getattr__(name: str) -> Any:
    # On use: the child processes of the suite are modules of this package, and start in half the time without pytest.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] == _SUITE:
        import pytest

        # Before its import, so that a failed assertion shows the values it compared.
        pytest.register_assert_rewrite(_SUITE)
    return getattr(importlib.import_module(_HOMES[name]), name)
