"""The first lines of the screen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from longshore.queue import Count
from longshore.runs.control.pause import EVERYTHING
from longshore.runs.estimate.estimate import Binding, Estimate
from longshore.runs.watch.blockers import Blockers
from longshore.top.figures import QueueFigures
from longshore.top.screens.head import _hint, _left


def board(
    estimate: Estimate | None,
    *,
    run: str | None = "r",
    left: float | None = None,
    paused: dict[str, float] | None = None,
) -> QueueFigures:
    figures = SimpleNamespace(
        run=run,
        estimate=estimate,
        left=left,
        count=Count(run="r", kind="", partition="", pending=1),
        being_submitted=False,
        blockers=Blockers(paused=paused or {}),
    )
    return cast(QueueFigures, figures)


def test_a_host_that_binds_is_named_with_its_port() -> None:
    estimate = Estimate(p50=1.0, p90=2.0, binds=Binding.HOST, host="a.org:8080")
    assert _hint(board(estimate)).plain == "what binds: the rate of a.org:8080"


def test_a_pause_takes_the_place_of_the_time_left() -> None:
    paused = board(Estimate(p50=None, p90=None, unknown="it is paused"), paused={"r": 1.0})
    assert _left(paused) == "paused"
    assert _hint(paused).plain.startswith("paused: run r; to let it go on: longshore resume r")
    assert "longshore resume r --queue ./jobs (since" in _hint(paused, " --queue ./jobs").plain
    assert _left(board(None, run=None, left=30.0, paused={EVERYTHING: 1.0})) == "paused"
    assert _left(board(None, run=None, left=30.0, paused={"r": 1.0})) == "30 s left"
