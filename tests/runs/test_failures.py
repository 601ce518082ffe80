"""What is said of failures to a person."""

from __future__ import annotations

import msgspec
import pytest

from longshore.errors import Failure, short_name
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.outcome import Failed, Settlement
from longshore.runs.watch.failures import FailureGroups, failure_groups, short_message
from longshore.testing import MemoryQueue, make_job


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("https://a.org/1 answered 404 Not Found", "answered 404 Not Found"),
        ("https://a.org/1: no connection within 10 seconds", "no connection within 10 seconds"),
        ("https://a.org/1", "https://a.org/1"),
        ("https://b.org/ answered 404 Not Found", "https://b.org/ answered 404 Not Found"),
        ("'price'", "'price'"),
    ],
)
def test_a_short_message_does_not_repeat_what_the_job_is_about(message: str, said: str) -> None:
    job = make_job({"url": "https://a.org/1"})
    assert short_message(job, Failure("processing", message)) == said


def test_errors_are_called_by_their_own_name() -> None:
    assert [short_name(name) for name in ("longshore.scrape.http.response.StatusError", "KeyError", "")] == [
        "StatusError",
        "KeyError",
        "",
    ]


@pytest.mark.parametrize(
    ("failure", "label"),
    [
        (Failure("timeout", "", "longshore.errors.TimedOutError"), "timeout (TimedOutError)"),
        (Failure("unknown", "", "KeyError"), "unknown (KeyError)"),
        (Failure("crash", ""), "crash"),
    ],
)
def test_failures_of_one_type_and_exception_have_one_label(failure: Failure, label: str) -> None:
    assert failure.label == label


def test_past_the_most_groups_further_names_lose_their_last_part() -> None:
    groups = FailureGroups(2, 1, lambda failure: (failure.error_type, failure.exception_name))
    for number, name in enumerate(["A", "B", "C", "D", "A"]):
        groups.add(msgspec.structs.replace(make_job({"n": number}), failure=Failure("unknown", "", name)))
    groups.add(make_job({"n": 9}))
    assert [(group.exception, group.count) for group in groups.groups] == [("A", 2), ("B", 1), ("", 3)]
    assert [job.payload["n"] for group in groups.groups for job in group.examples] == [0, 1, 2]


async def test_a_missing_page_and_a_broken_server_are_different_failures() -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(5)])
    messages = ["https://a.org/1 answered 404 Not Found", "https://a.org/2 answered 503 Service Unavailable"]
    worker = WorkerId.new("w")
    for number, lease in enumerate(await queue.claim(Want(worker=worker, limit=5))):
        if number < 4:
            failure = Failure("processing", messages[number % 3 % 2], "longshore.scrape.http.response.StatusError")
        else:
            failure = Failure("processing", "robots.txt forbids it", "longshore.scrape.http.robots.RobotsError")
        await queue.settle([Settlement(lease, Failed(failure, max_attempts=1))])
    assert [(group.label, group.count) for group in await failure_groups(queue, "r")] == [
        ("processing (StatusError: 404 Not Found)", 3),
        ("processing (StatusError: 503 Service Unavailable)", 1),
        ("processing (RobotsError)", 1),
    ]
