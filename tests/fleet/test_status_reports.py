"""What a worker tells its supervisor, over its standard output."""

from __future__ import annotations

import subprocess
import sys

from longshore.fleet.supervise.lifeline import GOODBYE
from longshore.fleet.supervise.status_reports import read_report
from longshore.job import Job
from longshore.lease import Lease, WorkerId
from longshore.worker.loop.partition_scope import Everywhere
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.worker_status import WorkerStatus, worker_status

TELLING = """
import os, sys
from longshore.fleet.supervise.status_reports import Reports
from longshore.worker.status.worker_status import WorkerStatus
tell = Reports()
print("a print of a handler", flush=True)
os.write(1, b"a print of C code\\n")
tell(WorkerStatus(completed=3, job="https://a.org/"))
"""


def test_reports_arrive_and_what_is_printed_goes_to_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", TELLING], capture_output=True, check=True)
    assert [read_report(line) for line in done.stdout.splitlines()] == [WorkerStatus(completed=3, job="https://a.org/")]
    assert done.stderr.decode().split("\n")[:2] == ["a print of a handler", "a print of C code"]


def test_a_supervisor_that_is_gone_does_not_trouble_the_worker() -> None:
    code = TELLING + "\nfor _ in range(100000): tell(WorkerStatus())\nprint('alive')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"alive" in process.stderr.read()
    assert process.returncode == 0


def test_a_supervisor_that_does_not_listen_does_not_hold_the_worker_up() -> None:
    code = TELLING + "\nfor _ in range(100000): tell(WorkerStatus())\nprint('alive')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"alive" in process.stderr.read()
        assert all(read_report(line) is not None for line in process.stdout.read().splitlines())


def test_the_goodbye_waits_for_a_supervisor_that_is_too_busy_to_listen() -> None:
    code = TELLING + "\nfor _ in range(100000): tell(WorkerStatus())\nprint('alive', flush=True)\ntell.goodbye()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while b"alive" not in process.stderr.readline():
            pass
        assert process.stdout.read().splitlines()[-1] == GOODBYE
    assert process.returncode == 0


def test_a_line_that_is_no_report_is_none() -> None:
    assert read_report(b"Traceback (most recent call last):\n") is None
    assert read_report(b'{"completed": "many"}') is None


def lease(**fields: object) -> Lease:
    given = {"id": "1", "run": "r", "kind": "page", "key": "k", "payload": {}} | fields
    return Lease(Job(**given), WorkerId.new("w"), 0.0)  # type: ignore[arg-type]


def test_the_current_job_is_named_by_its_url_without_secrets() -> None:
    url = "https://user:secret@a.org/page"
    told = worker_status(WorkerCounters(), Everywhere(None), [lease(payload={"url": url})], trouble="", limited_to=None)
    assert "secret" not in told.job
    assert told.job.endswith("a.org/page")


def test_a_job_that_is_no_url_is_named_by_kind_key_and_partition() -> None:
    jobs = [lease(key="f" * 64, partition="CA"), lease(key="TX-17")]
    told = [worker_status(WorkerCounters(), Everywhere(None), [job], trouble="", limited_to=None).job for job in jobs]
    assert told == ["page ffffffffffff (CA)", "page TX-17"]


def test_a_report_is_short_enough_to_be_written_whole() -> None:
    many = frozenset(f"{number:04d}{'ß' * 100}" for number in range(1000))
    job = lease(payload={"url": "https://a.org/" + "ä" * 5000})
    told = worker_status(WorkerCounters(), Everywhere(None), [job] * 9, trouble="ü" * 5000, limited_to=many)
    import msgspec

    assert len(msgspec.json.encode(told)) < 4096
    assert (told.owned, told.under_way) == (1000, 9)
