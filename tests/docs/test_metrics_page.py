"""docs/metrics.md lists every metric that the processes offer, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from tests.server.test_metrics_over_http import figures_with
from tests.ui.test_fleet_view import board

from longshore.clock import ManualClock
from longshore.observe.health import Vitals
from longshore.observe.metrics import Metrics
from longshore.scrape.proxies.counters import ProxyTotals
from longshore.top.figures import QueueFigures
from longshore.top.hosts import HostRow
from longshore.top.queue_metrics import add_queue
from longshore.ui.fleet.observed_fleet import ObservedFleet
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.worker_figures import ToolFigures, WorkerFigures
from longshore.worker.status.worker_status import WorkerStatus

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
_NAME = re.compile(r"^# TYPE (longshore_\w+) (\w+)$", re.MULTILINE)


def documented() -> dict[str, str]:
    """The type of each metric in the tables."""
    rows = re.findall(r"^\| ((?:`longshore_\w+`(?:, )?)+) \| (\w+) \|", PAGE, re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}


def queue_figures() -> QueueFigures:
    figures = figures_with((HostRow(host="a.org", waiting=1, rate=1.0),))
    return msgspec.structs.replace(
        figures, oldest_pending=1.0, active=msgspec.structs.replace(figures.active, workers=1)
    )


def offered(folder: Path) -> dict[str, str]:
    """The type of each metric of a fleet whose workers have everything, and of a server."""
    shown = board(1)
    vitals = Vitals(uptime=5.0, claimed=3, completed=3, failed=0, busy_seconds=1.0, errors_in_a_row=0)
    worker = WorkerFigures(
        vitals=vitals,
        counters=WorkerCounters(),
        tools=ToolFigures(proxies=ProxyTotals(serving=1)),
        waits={"tor": "45 %"},
    )
    shown.hear("worker 0", msgspec.json.encode(WorkerStatus(figures=worker)))
    server = Metrics()
    add_queue(server, queue_figures())
    assert isinstance(shown.clock, ManualClock)
    text = ObservedFleet(shown, folder, shown.clock).metrics() + server.text()
    return dict(_NAME.findall(text.decode()))


def test_every_metric_is_documented_with_its_type_and_none_is_that_does_not_exist(tmp_path: Path) -> None:
    # Whether the queue answered is known to the route alone; tests/server has it.
    assert documented() == offered(tmp_path) | {"longshore_queue_up": "gauge"}


def test_the_labels_are_those_of_the_page(tmp_path: Path) -> None:
    told = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels in re.findall(r"^\| ((?:`longshore_\w+`(?:, )?)+) \| \w+ \| ([^|]*) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told["longshore_attempts_total"] == {"outcome"}
    assert told["longshore_worker_waiting"] == {"worker", "on"}
    assert told["longshore_host_closed_seconds"] == {"host"}
    assert told["longshore_queue_jobs"] == {"state"}
