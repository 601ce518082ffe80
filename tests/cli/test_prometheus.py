"""A real Prometheus scrapes a fleet and the server, and an alert fires when a worker is stopped (D8)."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.services.postgres import free_port
from tests.services.prometheus import prometheus
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
STUCK = "LongshoreWorkerStuck"
_RULE = re.compile(rf"alert: {STUCK}\n\s+expr: (?P<metric>\w+) > \d+\n\s+for: \S+\n")
JOBS = 6


def stuck_rule() -> str:
    """The rule for a stuck worker of `deploy`, with seconds instead of minutes."""
    metric = "longshore_worker_heartbeat_age_seconds"
    if ALERTS.exists():
        found = _RULE.search(ALERTS.read_text())
        assert found is not None, f"{ALERTS} has no rule {STUCK} of the form METRIC > SECONDS"
        metric = found["metric"]
    rule = {"alert": STUCK, "expr": f"{metric} > 5", "for": "1s"}
    return json.dumps({"groups": [{"name": "short", "rules": [rule]}]})


@contextmanager
def started(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = shell.start(*arguments)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def health(port: int) -> Any:
    """The health of a fleet that answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


@pytest.mark.ledger("D8")
def test_a_stopped_worker_raises_an_alert_and_one_that_goes_on_ends_it(shell: Shell, tmp_path: Path) -> None:
    shell.json("submit", "page", "--urls-file", shell.urls(JOBS), "--run", "r")
    fleet_port, server_port = free_port(), free_port()
    key = tmp_path / "read.key"
    key.write_text(shell("keys", "add", "prometheus", "--scope", "read").stdout.splitlines()[0])
    fleet = ("fleet", "pages.py", "--workers", "2", "--stagger", "0", "--yes", "--metrics-port", str(fleet_port))
    targets = {"longshore-fleet": fleet_port, "longshore-server": server_port}
    with (
        started(shell, *fleet),
        started(shell, "serve", "--port", str(server_port)),
        prometheus(tmp_path, targets, {"longshore-server": key}, stuck_rule()) as watching,
    ):
        wait_until(lambda: watching.query('sum(up{job=~"longshore.*"})') == {"": 2})
        wait_until(lambda: watching.query("longshore_attempts_total").get("completed") == JOBS)
        of_server = 'longshore_queue_jobs{job="longshore-server"}'
        wait_until(lambda: watching.query(of_server).get("completed") == JOBS)
        wait_until(lambda: len(watching.query("longshore_worker_heartbeat_age_seconds")) == 2)
        wait_until(lambda: not watching.firing())
        pids = {each["worker"]: each["pid"] for each in health(fleet_port)["workers"]}
        stopped = pids["worker 1"]
        subprocess.run(["kill", "-STOP", str(stopped)], check=True)
        try:
            wait_until(lambda: [each["worker"] for each in watching.firing()] == ["worker 1"])
        finally:
            subprocess.run(["kill", "-CONT", str(stopped)], check=True)
        wait_until(lambda: not watching.firing())
