"""What a handler returns or raises, and the outcome that becomes of it."""

from __future__ import annotations

import dataclasses
import os
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from longshore import (
    ConnectionFailedError,
    Job,
    Partial,
    ProcessingError,
    Result,
    Snooze,
    SnoozeError,
    ValidationError,
    handler,
    new_job,
)
from longshore.handlers.handler import Handler
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import JobName
from longshore.outcome import Completed, Failed, Outcome, Released, Snoozed
from longshore.scrape.http.robots import RobotsError
from longshore.testing import make_job

PAGE = handler("page")(lambda job: None)


def outcome(value: Any, *, made: Handler = PAGE, job: Job | None = None) -> Outcome:
    return outcome_of(made, job or make_job({}), value)


def stored(value: Any) -> Any:
    done = outcome(value)
    assert isinstance(done, Completed), done
    assert isinstance(done.result, msgspec.Raw), "encoded once, here"
    return msgspec.json.decode(done.result)


def failed(value: Any) -> Failed:
    done = outcome(value)
    assert isinstance(done, Failed), done
    return done


@dataclasses.dataclass
class Row:
    n: int


class Model(pydantic.BaseModel):
    at: datetime


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        ({"a": [1, 2.5, "é", None, True]}, {"a": [1, 2.5, "é", None, True]}),
        ([Row(1)], [{"n": 1}]),
        ("text", "text"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        ({"m": Model(at=datetime(2026, 1, 2, tzinfo=UTC))}, {"m": {"at": "2026-01-02T00:00:00Z"}}),
        ({"success": True, "data": 1}, {"success": True, "data": 1}),
        (False, False),
    ],
)
def test_any_json_value_completes(value: object, kept: object) -> None:
    assert stored(value) == kept


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"rows": [{"a": 1}, {"a": object()}]}, r"\['rows'\]\[1\]\['a'\].*type object"),
        (lambda: None, "type function"),
        ({"page": Model}, r"\['page'\]"),
        ({(1, 2): 3}, "keys that are neither"),
        (["ok", "\ud800"], r"\[1\].*surrogate"),
        ((n for n in range(3)), "type generator"),
    ],
)
def test_what_json_cannot_hold_fails_for_good_and_is_named_with_its_place(value: object, says: str) -> None:
    failure = failed(value).failure
    assert failure.error_type == "processing"
    assert not failure.retryable
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(failure.message)


def test_a_result_that_contains_itself_fails_for_good() -> None:
    loop: list[Any] = []
    loop.append(loop)
    failure = failed(loop).failure
    assert "contains itself" in failure.message
    assert not failure.retryable


def test_success_false_is_a_failure_with_what_it_says() -> None:
    report = {"success": False, "error": "no rows", "error_type": "validation", "traceback": "at line 3"}
    failure = failed(report).failure
    assert (failure.message, failure.error_type, failure.traceback) == ("no rows", "validation", "at line 3")
    assert not failure.retryable, "validation is never retried"


@pytest.mark.parametrize(
    ("report", "retryable"),
    [
        ({"success": False}, True),
        ({"success": False, "retryable": False}, False),
        ({"success": False, "error_type": "validation", "retryable": True}, True),
    ],
)
def test_success_false_decides_whether_to_try_again(report: dict[str, Any], retryable: bool) -> None:
    assert failed(report).failure.retryable is retryable


def test_an_error_type_of_the_users_own_is_kept_as_the_exception() -> None:
    failure = failed({"success": False, "error_type": "LayoutChanged", "message": "new page"}).failure
    assert (failure.error_type, failure.exception, failure.message) == ("unknown", "LayoutChanged", "new page")


def test_follow_on_jobs_come_with_the_result() -> None:
    more = [new_job("page", {"url": f"https://h/{n}"}) for n in range(3)]
    done = outcome(Result({"links": 3}, jobs=more))
    assert done == Completed(msgspec.Raw(b'{"links":3}'), tuple(more))


def test_a_message_is_stored_with_its_data() -> None:
    assert stored(Result([1], message="half of it")) == {"success": True, "data": [1], "message": "half of it"}
    assert stored(Result([1])) == [1]


def test_a_follow_on_that_is_no_job_fails_for_good() -> None:
    failure = failed(Result(jobs=["https://h/"])).failure  # type: ignore[list-item]
    assert "new_job" in failure.message
    assert not failure.retryable


def test_a_follow_on_whose_payload_cannot_be_stored_fails_for_good() -> None:
    failure = failed(Result(jobs=[new_job("pdf", {"url": "https://h/", "doc": object()})])).failure
    assert "'pdf'" in failure.message
    assert "['doc']" in failure.message


def test_partial_success_keeps_results_and_errors_side_by_side() -> None:
    error = ConnectionFailedError("host down")
    assert stored(Partial(results=[1, 2], errors=[error, "plain", {"part": 4}])) == {
        "results": [1, 2],
        "errors": [
            {"error": "host down", "error_type": "connection", "retryable": True},
            "plain",
            {"part": 4},
        ],
    }


def test_partial_with_no_result_is_a_failure_that_names_the_parts() -> None:
    errors = [ValueError(f"part {n}") for n in range(5)]
    failure = failed(Partial(errors=errors)).failure
    assert failure.message == "All 5 parts failed: part 0; part 1; part 2; and 2 more"
    assert failure.retryable


def test_partial_is_not_tried_again_when_no_error_may_pass() -> None:
    assert not failed(Partial(errors=[ValidationError("a"), ValidationError("b")])).failure.retryable
    assert failed(Partial(errors=[ValidationError("a"), TimeoutError()])).failure.retryable


def test_nothing_to_do_in_parts_is_a_success() -> None:
    assert stored(Partial()) == {"results": [], "errors": []}


def test_partial_may_come_with_follow_on_jobs() -> None:
    done = outcome(Result(Partial(results=[1]), jobs=[new_job("page", {})]))
    assert isinstance(done, Completed)
    assert len(done.jobs) == 1
    assert msgspec.json.decode(done.result) == {"results": [1], "errors": []}


def test_snooze_costs_no_attempt() -> None:
    assert outcome(Snooze(90)) == Snoozed(timedelta(seconds=90))


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_snooze_refuses_time_that_is_none(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds from 0 up"):
        Snooze(seconds)


@pytest.mark.parametrize("value", [Completed(1), Snoozed(timedelta(1)), Released()])
def test_an_outcome_returned_is_not_taken_for_data(value: object) -> None:
    assert "Return a value, Result, Partial or Snooze" in failed(value).failure.message


def failed_by(of: Handler, job: Job, error: BaseException) -> Failed:
    done = outcome_of_error(of, job, error)
    assert isinstance(done, Failed)
    return done


def test_an_error_that_says_not_now_is_a_snooze() -> None:
    class ShopShutError(SnoozeError):
        pass

    assert outcome_of_error(PAGE, make_job({}), SnoozeError("the shop is shut", 90)) == Snoozed(timedelta(seconds=90))
    assert outcome_of_error(PAGE, make_job({}), ShopShutError("shut", 0.5)) == Snoozed(timedelta(seconds=0.5))


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e10])
def test_a_snooze_that_never_ends_is_refused_where_it_is_raised(seconds: float) -> None:
    with pytest.raises(ValueError, match="give it seconds from 0 to"):
        SnoozeError("x", seconds)


def test_an_error_that_says_not_now_can_be_sent_between_processes() -> None:
    again = pickle.loads(pickle.dumps(SnoozeError("shut", 90)))
    assert (str(again), again.snooze) == ("shut", timedelta(seconds=90))


def test_retries_declared_replace_the_jobs_own_limit() -> None:
    twice = handler("page", retries=2, backoff=1)(lambda job: None)
    first = failed_by(twice, make_job({}, attempt=1, max_attempts=9), OSError("x"))
    assert first.max_attempts == 3
    assert first.failure.retryable
    assert timedelta(seconds=0.75) <= first.retry_in <= timedelta(seconds=1)
    last = failed_by(twice, make_job({}, attempt=3, max_attempts=9), OSError("x"))
    assert (last.max_attempts, last.retry_in) == (3, timedelta(0))


def test_without_retries_the_jobs_own_limit_counts() -> None:
    one = failed_by(PAGE, make_job({}, attempt=1, max_attempts=2), OSError("x"))
    assert one.max_attempts is None
    assert one.retry_in > timedelta(0)
    assert failed_by(PAGE, make_job({}, attempt=2, max_attempts=2), OSError("x")).retry_in == timedelta(0)


@pytest.mark.parametrize(
    ("error", "error_type", "retryable"),
    [
        (ValidationError("x"), "validation", False),
        (ConnectionFailedError("x"), "connection", True),
        (ConnectionResetError("x"), "connection", True),
        (TimeoutError("x"), "timeout", True),
        (ProcessingError("x"), "processing", True),
        (ProcessingError("x", retryable=False), "processing", False),
        (KeyError("x"), "unknown", True),
    ],
)
def test_an_error_says_whether_to_try_again(error: Exception, error_type: str, retryable: bool) -> None:
    failure = failed_by(PAGE, make_job({}), error).failure
    assert (failure.error_type, failure.retryable) == (error_type, retryable)


def test_the_traceback_of_an_unknown_error_is_kept() -> None:
    try:
        os.environ["LONGSHORE_NOT_SET_ANYWHERE"]
    except KeyError as error:
        failure = failed_by(PAGE, make_job({}), error).failure
    assert "test_result.py" in failure.traceback
    assert failure.exception == "KeyError"


def test_a_link_that_robots_txt_forbids_is_skipped_and_a_submitted_job_fails() -> None:
    error = RobotsError("https://example.org/private is closed to robots")
    found = msgspec.structs.replace(make_job({}), parent=JobName("page", "k"))
    assert outcome_of_error(PAGE, found, error) == Completed(msgspec.Raw(b'{"skipped":"%s"}' % str(error).encode()))
    submitted = outcome_of_error(PAGE, make_job({}), error)
    assert isinstance(submitted, Failed)
    assert submitted.failure.label == "processing (RobotsError)"
    # A site whose robots.txt cannot be read is another matter: its rules may allow the page later.
    assert isinstance(outcome_of_error(PAGE, found, RobotsError("it answers 503", retryable=True)), Failed)
