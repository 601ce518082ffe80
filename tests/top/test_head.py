"""The first lines of the screen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from longshore.queue import Count
from longshore.runs.estimate.estimate import Binding, Estimate
from longshore.top.figures import QueueFigures
from longshore.top.screens.head import _hint


def test_a_host_that_binds_is_named_with_its_port() -> None:
    estimate = Estimate(p50=1.0, p90=2.0, binds=Binding.HOST, host="a.org:8080")
    board = cast(
        QueueFigures, SimpleNamespace(estimate=estimate, count=Count(run="r", kind="", partition="", pending=1))
    )
    assert _hint(board).plain == "what binds: the rate of a.org:8080"
