"""A worker under a supervisor (runit): it is started again after a crash, and drains when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.services.programs import needs
from tests.waiting import wait_until

from longshore.observe.health_files import read_health
from longshore.settings import TABLE

JOBS, AT_ONCE = 8, 2
HELD = """
import asyncio
from pathlib import Path

from longshore import handler


@handler("page", timeout=600, retries=20)
async def page(number: int):
    with Path("begun").open("a") as begun:
        begun.write("one\\n")
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    return number
"""


class Service:
    """A worker that runsv supervises."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ours = {name for setting in TABLE.values() for name in setting.variables}
        self._environment = {name: value for name, value in os.environ.items() if name not in ours}
        self._environment |= {"LONGSHORE_LEASE_SECONDS": "5", "LONGSHORE_POLL_INTERVAL": "0.5"}
        (folder / "held.py").write_text(HELD)
        program = folder / "service" / "run"
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\nexec 2>>'{folder}/log' >&2\ncd '{folder}'\n"
            f"exec '{sys.executable}' -m longshore work held.py --concurrency {AT_ONCE}\n"
        )
        program.chmod(0o755)

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def supervised(self) -> Iterator[subprocess.Popen[bytes]]:
        supervisor = subprocess.Popen(["runsv", self.folder / "service"], env=self._environment)
        try:
            yield supervisor
        finally:
            if supervisor.poll() is None:
                for pid in self.pids():
                    os.kill(pid, signal.SIGKILL)
                supervisor.kill()
                supervisor.wait()

    def tell(self, order: str) -> None:
        """Give runsv an order: t sends SIGTERM, x sends it and lets the supervisor end with its service."""
        (self.folder / "service" / "supervise" / "control").write_text(order)

    def pids(self) -> list[int]:
        """The workers that can work now."""
        return [each.pid for each in read_health(self.folder / ".longshore") if each.ready]

    def begun(self) -> int:
        """How many attempts have begun."""
        path = self.folder / "begun"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def counts(self) -> Any:
        return json.loads(self("status", "r", "--json"))


@pytest.mark.ledger("E11", "C3")
def test_a_supervisor_starts_a_crashed_worker_again_and_lets_it_finish_when_it_stops_it(tmp_path: Path) -> None:
    needs("runsv")
    service = Service(tmp_path)
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps({"number": each}) + "\n" for each in range(JOBS)))
    service("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r")
    with service.supervised() as supervisor:
        wait_until(lambda: bool(service.pids()) and service.begun() == AT_ONCE)
        (first,) = service.pids()
        os.kill(first, signal.SIGKILL)
        # The jobs that it held come back when their leases expire.
        wait_until(lambda: bool(service.pids()) and service.pids() != [first])
        # A worker that is asked to stop reaps no more, so those leases must have been taken back before.
        wait_until(lambda: service.begun() == 2 * AT_ONCE and service.counts()["claimed"] <= AT_ONCE)
        service.tell("x")
        (tmp_path / "go").touch()
        supervisor.wait(120)
    counts = service.counts()
    assert (counts["claimed"], counts["failed"]) == (0, 0)
    # It finished the jobs under way, and gave the others back.
    assert counts["completed"] + counts["pending"] == JOBS
    assert counts["completed"] > 0
    assert "Final statistics" in (tmp_path / "log").read_text()
