"""A fleet as its metrics port shows it: the reports of its workers, added up (D8, E14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.observe.test_metrics import read
from tests.ui.test_fleet_view import board

from longshore.clock import ManualClock
from longshore.fleet.supervise.supervisor import Phase
from longshore.observe.health import Vitals
from longshore.ui.fleet.board import FleetBoard
from longshore.ui.fleet.observed_fleet import ObservedFleet
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.worker_figures import WorkerFigures
from longshore.worker.status.worker_status import WorkerStatus


class Text:
    """The text of a scrape, for `read`."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def text(self) -> bytes:
        return self._text


def samples(observed: ObservedFleet) -> Any:
    return read(cast("Any", Text(observed.metrics())))


def report(completed: int, **vitals: Any) -> bytes:
    known = {"uptime": 5.0, "claimed": completed, "completed": completed, "failed": 0, "busy_seconds": 1.0}
    figures = WorkerFigures(
        vitals=Vitals(**{**known, "errors_in_a_row": 0, **vitals}),
        counters=WorkerCounters(claimed=completed, completed=completed),
        slots=8,
    )
    return msgspec.json.encode(WorkerStatus(completed=completed, under_way=1, figures=figures))


@pytest.fixture
def fleet(tmp_path: Path) -> tuple[FleetBoard, ObservedFleet, ManualClock]:
    shown = board(2)
    clock = cast("ManualClock", shown.clock)
    for name in shown.posts:
        shown.hear(name, report(3))
    return shown, ObservedFleet(shown, tmp_path, clock), clock


def test_a_worker_that_reports_no_more_is_told_by_the_age_of_its_heartbeat(fleet: Any) -> None:
    shown, observed, clock = fleet
    clock.advance(25.0)
    shown.hear("worker 1", report(4))
    found = samples(observed)
    assert found["longshore_worker_heartbeat_age_seconds"] == {
        (("worker", "worker 0"),): 25,
        (("worker", "worker 1"),): 0,
    }
    assert found["longshore_worker_healthy"] == {(("worker", "worker 0"),): 0, (("worker", "worker 1"),): 1}
    health = observed.health()
    assert (health.status, health.ready) == ("unhealthy", True)
    assert health.detail == "worker 0: no sign of life for 25 s"


def test_a_worker_that_never_reported_has_an_age_too(fleet: Any) -> None:
    shown, observed, clock = fleet
    shown.posts["worker 0"].process.pid = 4711
    assert observed.health().workers[0].status == "unhealthy"
    clock.advance(90.0)
    assert samples(observed)["longshore_worker_heartbeat_age_seconds"][("worker", "worker 0"),] == 90


def test_counters_go_on_where_a_crashed_worker_left_them(fleet: Any) -> None:
    shown, observed, _ = fleet
    shown.posts["worker 0"].process.pid = 4711
    shown.posts["worker 0"].ending.restarts = 1
    shown.hear("worker 0", report(2))
    found = samples(observed)
    assert found["longshore_jobs_claimed_total"] == {(): 8}
    assert found["longshore_attempt_slots"] == {(): 16}
    assert found["longshore_worker_restarts_total"][("worker", "worker 0"),] == 1


def test_a_worker_that_was_given_up_makes_the_fleet_unhealthy_and_one_that_is_done_does_not(fleet: Any) -> None:
    shown, observed, _ = fleet
    shown.posts["worker 0"].phase, shown.posts["worker 0"].process = Phase.ENDED, None
    assert observed.health().status == "healthy"
    shown.posts["worker 0"].phase = Phase.GIVEN_UP
    assert "it crashed too often" in observed.health().detail
    assert samples(observed)["longshore_workers"][("phase", "given up"),] == 1


def test_the_queue_is_counted_as_the_fleet_counted_it(fleet: Any) -> None:
    _, observed, _ = fleet
    found = samples(observed)["longshore_queue_jobs"]
    assert found[("state", "pending"),] == 800
    assert found[("state", "completed"),] == 200
