"""What `longshore health` knows of processes that run, hang or were killed (E14)."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.waiting import wait_until

from longshore.observe.health import Vitals
from longshore.observe.health_files import HealthFile, read_health, told
from longshore.observe.health_report import HealthReport, report_of, worker_health

GOOD = Vitals(uptime=9.0, claimed=10, completed=6, failed=1, retried=1, busy_seconds=4.0, errors_in_a_row=0)


class Process:
    def health(self) -> HealthReport:
        return HealthReport(status="healthy", process="worker", pid=os.getpid())


async def test_a_process_that_runs_tells_its_own_health(tmp_path: Path) -> None:
    async with told(Process(), tmp_path):
        await asyncio.to_thread(wait_until, lambda: bool(read_health(tmp_path)))
        assert [each.status for each in read_health(tmp_path)] == ["healthy"]
        (file,) = (tmp_path / "health").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_health(tmp_path) == []


def written(folder: Path, *, age: float, pid: int, began: float) -> Path:
    report = HealthReport(status="healthy", process="worker", pid=pid)
    path = folder / "health" / f"worker-{pid}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(HealthFile(at=time.time() - age, began=began, report=report)))
    return path


def test_a_process_that_writes_no_more_hangs(tmp_path: Path) -> None:
    written(tmp_path, age=60.0, pid=os.getpid(), began=psutil.Process().create_time())
    (found,) = read_health(tmp_path)
    assert (found.status, found.ready) == ("unhealthy", False)
    assert found.detail == "no sign of life for 60 s: it hangs or was stopped"


def test_a_process_that_was_killed_is_named(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    written(tmp_path, age=0.0, pid=gone.pid, began=0.0)
    (found,) = read_health(tmp_path)
    assert found.detail == f"process {gone.pid} is gone, and did not end as it should"


def test_a_process_id_that_was_given_away_again_is_no_sign_of_life(tmp_path: Path) -> None:
    written(tmp_path, age=0.0, pid=os.getpid(), began=psutil.Process().create_time() - 1000)
    assert "is gone" in read_health(tmp_path)[0].detail


async def test_a_start_removes_the_files_of_processes_that_are_gone(tmp_path: Path) -> None:
    old = written(tmp_path, age=0.0, pid=os.getpid(), began=0.0)
    old = old.rename(old.with_name("worker-0.json"))
    async with told(Process(), tmp_path):
        assert not old.exists()


def test_a_process_of_another_container_with_this_data_folder_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tell() -> None:
        async with told(Process(), tmp_path):
            await asyncio.to_thread(wait_until, lambda: bool(read_health(tmp_path)))
            own = {path.name for path in (tmp_path / "health").iterdir()}
            monkeypatch.setattr("longshore.observe.health_files.process_id_scope", lambda: "another container")
            assert read_health(tmp_path) == []
            # There, the same process id belongs to another process.
            async with told(Process(), tmp_path):
                await asyncio.to_thread(wait_until, lambda: bool(read_health(tmp_path)))
                names = {path.name for path in (tmp_path / "health").iterdir()}
                assert own < names
                assert len(names) == 2

    asyncio.run(tell())


def test_a_file_of_another_version_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "health").mkdir()
    (tmp_path / "health" / "worker-1.json").write_text("{}")
    assert read_health(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "age", "detail", "ready"),
    [
        ({}, 0.5, "", True),
        ({}, 30.0, "no sign of life for 30 s", False),
        ({"waits_for": "tor: 45 % (Loading)"}, 0.5, "waits for tor: 45 % (Loading)", False),
        ({"queue_error": "refused"}, 0.5, "the queue is out of reach (refused)", False),
        ({"failed_check": "the health check of Filings failed"}, 0.5, "the health check of Filings failed", True),
        ({"errors_in_a_row": 12}, 0.5, "the last 12 attempts all failed", True),
    ],
)
def test_the_health_of_a_worker(changes: dict[str, object], age: float, detail: str, ready: bool) -> None:
    health = worker_health("worker 1", 7, msgspec.structs.replace(GOOD, **changes), age, "")
    assert (health.detail, health.ready) == (detail, ready)
    assert health.status == ("unhealthy" if detail else "healthy")
    assert (health.success_rate, health.average_seconds) == (0.75, 0.5)


def test_a_worker_that_has_not_reported_is_not_healthy() -> None:
    health = worker_health("worker 1", 7, None, 3.0, "")
    assert (health.status, health.ready) == ("unhealthy", False)
    assert "it has not reported yet" in health.detail


def test_a_fleet_is_ready_with_one_worker_and_healthy_with_all() -> None:
    good, bad = worker_health("worker 0", 1, GOOD, 0.1, ""), worker_health("worker 1", 2, GOOD, 99.0, "")
    report = report_of("fleet", 3, (good, bad))
    assert (report.status, report.ready) == ("unhealthy", True)
    assert report.detail == "worker 1: no sign of life for 99 s"
    assert report_of("fleet", 3, (good,)).status == "healthy"
    assert not report_of("fleet", 3, (bad,)).ready
    assert report_of("fleet", 3, ()).detail == "no worker runs"
