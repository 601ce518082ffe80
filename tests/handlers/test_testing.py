"""The test helpers, as a user's tests would use them."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from longshore import AsyncKit, ProcessingError, Result, Snooze, SyncKit, Worker, handler, new_job
from longshore.errors import UnknownKindError
from longshore.handlers.worker_class import Task
from longshore.job import Job
from longshore.scrape.http.client import Response
from longshore.testing import Completed, Failed, FakeHttp, ManualClock, Snoozed, make_job, run_handler

URL = "https://example.org/"


@handler("page", timeout=30, retries=2)
async def page(url: str, kit: AsyncKit) -> Any:
    answer = await kit.http.get(url)
    return {"text": answer.text, "status": answer.status}


@handler("plain", timeout=30)
def plain(job: Job, kit: SyncKit) -> Any:
    return kit.http.get(job.payload["url"]).json()


def failure_of(outcome: object) -> Any:
    assert isinstance(outcome, Failed)
    return outcome.failure


@pytest.mark.ledger("E10")
def test_an_async_handler_runs_on_pages_given_by_the_test() -> None:
    assert run_handler(page, {"url": URL}, http={URL: "hi"}) == Completed({"text": "hi", "status": 200})


async def test_it_runs_from_an_async_test_too() -> None:
    assert run_handler(page, {"url": URL}, http={URL: b"hi"}) == Completed({"text": "hi", "status": 200})
    assert run_handler(plain, {"url": URL}, http={URL: {"a": [1]}}) == Completed({"a": [1]})


def test_a_plain_handler_runs_the_same_way() -> None:
    assert run_handler(plain, {"url": URL}, http={URL: {"a": 1}}) == Completed({"a": 1})


def test_the_kit_is_the_one_for_its_sort_of_handler() -> None:
    @handler("async")
    async def asynchronous(kit: AsyncKit) -> str:
        return type(kit).__name__

    @handler("plain")
    def synchronous(kit: SyncKit) -> str:
        return type(kit).__name__

    assert run_handler(asynchronous) == Completed("AsyncKit")
    assert run_handler(synchronous) == Completed("SyncKit")


def test_a_plain_handler_may_run_a_loop_of_its_own() -> None:
    async def inner() -> int:
        return 3

    assert run_handler(handler("own")(lambda job: asyncio.run(inner()))) == Completed(3)


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        (404, "answered 404 Not Found", False),
        (503, "answered 503 Service Unavailable", True),
        (ProcessingError("broken"), "broken", True),
        (Response(url=URL, status=410), "410", False),
    ],
)
def test_a_page_may_be_a_status_or_an_error(answer: Any, message: str, retryable: bool) -> None:
    failure = failure_of(run_handler(page, {"url": URL}, http={URL: answer}))
    assert message in failure.message
    assert failure.retryable is retryable


def test_pages_may_come_from_a_function() -> None:
    asked = []

    def answer(url: str) -> str:
        asked.append(url)
        return url.upper()

    assert run_handler(page, {"url": URL}, http=answer) == Completed({"text": URL.upper(), "status": 200})
    assert asked == [URL]


def test_a_page_the_test_did_not_give_is_an_error_that_says_so() -> None:
    assert "The test has no page for https://example.org/" in failure_of(run_handler(page, {"url": URL})).message


def test_wrong_parameters_are_a_failure() -> None:
    failure = failure_of(run_handler(page, {}))
    assert (failure.error_type, failure.retryable) == ("validation", False)


def test_the_attempt_is_the_jobs() -> None:
    assert run_handler(handler("n")(lambda job: job.attempt), attempt=3) == Completed(3)


def test_the_payload_is_what_a_queue_would_give() -> None:
    assert run_handler(handler("t")(lambda job: job.payload), {"pair": (1, 2)}) == Completed({"pair": [1, 2]})


def test_follow_on_jobs_are_in_the_outcome() -> None:
    more = new_job("page", {"url": URL})
    assert run_handler(handler("list")(lambda: Result(1, jobs=[more]))) == Completed(1, (more,))


def test_a_snooze_is_an_outcome() -> None:
    outcome = run_handler(handler("later")(lambda: Snooze(5)))
    assert isinstance(outcome, Snoozed)
    assert outcome.delay.total_seconds() == 5


@pytest.mark.ledger("E10")
@pytest.mark.parametrize("made", [page, plain])
def test_a_slow_page_times_out_by_the_manual_clock(made: Any) -> None:
    clock = ManualClock()

    def slow(url: str) -> str:
        clock.advance(31)
        return "{}"

    assert failure_of(run_handler(made, {"url": URL}, http=slow, clock=clock)).error_type == "timeout"


def test_a_handler_that_was_too_slow_and_returned_has_timed_out() -> None:
    clock = ManualClock()

    @handler("slow", timeout=5)
    async def slow() -> str:
        clock.advance(6)
        return "late"

    assert failure_of(run_handler(slow, clock=clock)).error_type == "timeout"


def test_a_handler_that_hangs_is_ended_when_the_clock_passes_its_timeout() -> None:
    clock = ManualClock()
    ended = []

    @handler("hang", timeout=5)
    async def hang() -> None:
        clock.advance(6)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    assert failure_of(run_handler(hang, clock=clock)).error_type == "timeout"
    assert ended == [True]


def test_a_worker_class_runs_too() -> None:
    class Pages(Worker):
        kinds = ("a", "b")

        def process_task(self, task: Task) -> Any:
            return [task.type, task.params]

    assert run_handler(Pages, {"n": 1}, kind="b") == Completed(["b", {"n": 1}])
    with pytest.raises(UnknownKindError, match="a, b"):
        run_handler(Pages, {})


async def test_context_reaches_the_handler() -> None:
    value = contextvars.ContextVar("value", default=0)
    value.set(7)
    assert run_handler(handler("ctx")(lambda: value.get() + 0)) == Completed(7)


def test_a_made_job_is_keyed_like_a_submitted_one() -> None:
    job = make_job({"url": URL}, kind="page", attempt=2)
    submitted = new_job("page", {"url": URL})
    assert (job.key, job.host, job.attempt) == (submitted.key, "example.org", 2)


async def test_the_fake_remembers_what_it_was_asked() -> None:
    http = FakeHttp({URL: "x"})
    await http.get(URL)
    assert http.asked == [URL]
