"""What a worker says: a line a job while that can be read, counts when it cannot (A12)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, QueueUnavailableError
from longshore.job import Job
from longshore.lease import Lease, WorkerId
from longshore.observe import configure
from longshore.outcome import Completed, Failed, Settlement
from longshore.worker import WorkerConfig
from longshore.worker.status.log_reporter import LogReporter


@pytest.fixture
def said() -> io.StringIO:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    return stream


@pytest.fixture
def reporter(clock: ManualClock, tmp_path: Path) -> LogReporter:
    return LogReporter(WorkerConfig(queue_url="memory://", handler_file=tmp_path / "h.py"), clock)


def lease(number: int) -> Lease:
    job = Job(id=str(number), run="", kind="page", key="k" * 64, payload={"url": f"https://example.org/{number}"})
    return Lease(job, WorkerId.new("w"), 0.0)


def done(number: int) -> Settlement:
    return Settlement(lease(number), Completed(), 0.25)


def broken(number: int, text: str) -> Settlement:
    return Settlement(lease(number), Failed(Failure("processing", text)), 0.25)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_few_jobs_get_a_line_each(reporter: LogReporter, said: io.StringIO) -> None:
    reporter.claimed([lease(1)])
    reporter.completed([done(1)], 1)
    claimed, completed = entries(said)
    assert (claimed["message"], claimed["job_id"], claimed["url"]) == ("Claimed work", "1", "https://example.org/1")
    assert (completed["message"], completed["job_id"], completed["seconds"]) == ("Completed work", "1", 0.25)


def test_seconds_are_rounded_to_what_can_be_read(reporter: LogReporter, said: io.StringIO) -> None:
    reporter.completed([Settlement(lease(1), Completed(), 0.12345678901)], 1)
    reporter.failed(Settlement(lease(2), Failed(Failure("processing", "no")), 1 / 3), 2, again=True)
    assert [entry["seconds"] for entry in entries(said)] == [0.123457, 0.333333]


def test_a_flood_is_folded_into_one_line_a_second(reporter: LogReporter, said: io.StringIO, clock: ManualClock) -> None:
    for second in range(3):
        for number in range(100):
            reporter.claimed([lease(number)] * 10)
            reporter.completed([done(number)] * 10, 0)
        clock.advance(1.0)
        reporter.flush()
        if second == 0:
            said.truncate(0)
            said.seek(0)
    folded = entries(said)
    assert len(folded) == 2
    assert {(e["message"], e["jobs"], e["claimed"], e["rate"]) for e in folded} == {
        ("Completed work", 1000, 1000, "1,000/s")
    }


def test_after_a_flood_jobs_get_their_lines_back(reporter: LogReporter, said: io.StringIO, clock: ManualClock) -> None:
    reporter.completed([done(number) for number in range(50)], 50)
    for _ in range(2):
        clock.advance(1.0)
        reporter.flush()
    reporter.completed([done(99)], 51)
    assert entries(said)[-1]["job_id"] == "99"


def test_a_flood_of_failures_is_folded_by_what_went_wrong_and_names_an_example(
    reporter: LogReporter, said: io.StringIO, clock: ManualClock
) -> None:
    reporter.completed([done(number) for number in range(50)], 50)
    for number in range(30):
        reporter.failed(broken(number, f"row {number} of https://example.org/{number} is empty"), number, again=False)
        reporter.failed(broken(number, f"no table {number}"), number, again=True)
    clock.advance(1.0)
    reporter.flush()
    failures = [entry for entry in entries(said) if entry["message"] == "Failed work"]
    assert [(entry["jobs"], entry["example"]) for entry in failures] == [(30, "0"), (30, "0")]
    assert {entry["error"].split()[0] for entry in failures} == {"row", "no"}


def test_a_failure_says_what_went_wrong_and_what_comes_next(reporter: LogReporter, said: io.StringIO) -> None:
    reporter.failed(broken(1, "first line\nsecond   line"), 1, again=True)
    reporter.failed(broken(2, "x" * 1000), 2, again=False)
    retried, final = entries(said)
    assert (retried["level"], retried["error"], retried["next"]) == (
        "warning",
        "first line second line",
        "retry in 0.0 s",
    )
    assert final["level"] == "error"
    assert len(final["error"]) == 301
    assert "exception" not in final  # one that the handler foresaw


def test_an_error_nobody_foresaw_is_named_with_its_class_place_and_traceback(
    reporter: LogReporter, said: io.StringIO, clock: ManualClock
) -> None:
    try:
        json.loads("{")
    except ValueError as error:
        failure = Failure.of(error)
        traceback = error.__traceback__
    assert traceback is not None
    for number in range(50):
        reporter.failed(Settlement(lease(number), Failed(failure), 0.25), number, again=False)
    clock.advance(1.0)
    reporter.flush()
    first, *_, folded = entries(said)
    for entry in (first, folded):
        assert entry["error_type"] == "unknown"
        assert entry["error"].startswith("JSONDecodeError: Expecting property name")
        assert entry["at"].endswith(f"test_log_reporter.py:{traceback.tb_lineno}")  # not the library's innermost line
        assert entry["exception"].startswith("Traceback")
    assert folded["jobs"] == 30


def test_folded_lines_say_how_many_are_done_and_how_fast(
    reporter: LogReporter, said: io.StringIO, clock: ManualClock
) -> None:
    reporter.completed([done(number) for number in range(50)], 50)
    clock.advance(10.0)
    reporter.flush()
    (folded,) = entries(said)
    assert (folded["jobs"], folded["done"], folded["jobs_per_hour"]) == (50, 50, 18_000)


def test_an_outage_is_said_in_full_once_then_more_and_more_rarely_and_its_end_in_one_line(
    reporter: LogReporter, said: io.StringIO, clock: ManualClock
) -> None:
    began = clock.monotonic()
    while clock.monotonic() - began < 600:
        for doing in ("looking for work", "writing outcomes"):
            reporter.unavailable(doing, QueueUnavailableError("connection refused by the server"), 1.0)
        clock.advance(1.0)
    reporter.available()
    reporter.available()
    first, *later, back = entries(said)
    assert first["message"] == "Queue unavailable while looking for work; next try in 1.0 s"
    assert first["error"] == "connection refused by the server"
    assert [entry["message"].split("; ")[0] for entry in later] == [
        f"Queue unavailable for {span} now" for span in ("10 s", "30 s", "70 s", "150 s", "310 s")
    ]
    assert not any("error" in entry for entry in later)
    assert back["message"].startswith("The queue answers again, after ")


def test_another_cause_within_an_outage_and_the_next_outage_are_said_in_full(
    reporter: LogReporter, said: io.StringIO, clock: ManualClock
) -> None:
    for cause in ("refused", "refused", "starting up", "starting up"):
        reporter.unavailable("looking for work", QueueUnavailableError(cause), 1.0)
        clock.advance(100.0)
    reporter.available()
    reporter.unavailable("looking for work", QueueUnavailableError("refused"), 1.0)
    causes = [entry.get("error") for entry in entries(said) if entry["level"] == "warning"]
    assert causes == ["refused", None, "starting up", None, "refused"]
