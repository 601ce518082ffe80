"""The envelope: every key always there, whatever became of the job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from longshore.errors import Failure, UsageError
from longshore.handlers.envelope import envelope
from longshore.job import Job, State
from longshore.testing import make_job

KEYS = {"success", "data", "message", "error", "error_type", "retryable", "traceback", "metadata"}


def finished(state: State, **changes: Any) -> Job:
    changes = {"settled_at": 1_700_000_000.0, "seconds": 1.5, "worker": "w1", **changes}
    return msgspec.structs.replace(make_job({}), state=state, **changes)


def test_a_completed_job() -> None:
    assert envelope(finished(State.COMPLETED, result={"n": 1})) == {
        "success": True,
        "data": {"n": 1},
        "message": "",
        "error": None,
        "error_type": None,
        "retryable": False,
        "traceback": None,
        "metadata": {"processed_at": "2023-11-14T22:13:20+00:00", "worker_id": "w1", "processing_time": 1.5},
    }


@pytest.mark.parametrize(("at", "shown"), [(1e308, "9999-12-31T23:59:59+00:00"), (-1e308, "1970-01-01T00:00:00+00:00")])
def test_a_time_that_no_calendar_has_is_the_nearest(at: float, shown: str) -> None:
    assert envelope(finished(State.COMPLETED, settled_at=at))["metadata"]["processed_at"] == shown


def test_a_failed_job() -> None:
    failure = Failure("timeout", "too slow", "TimeoutError", retryable=True, traceback="at line 3")
    assert envelope(finished(State.FAILED, failure=failure)) == {
        "success": False,
        "data": None,
        "message": "",
        "error": "too slow",
        "error_type": "timeout",
        "retryable": True,
        "traceback": "at line 3",
        "metadata": {"failed_at": "2023-11-14T22:13:20+00:00", "worker_id": "w1", "processing_time": 1.5},
    }


def test_a_cancelled_job_says_so_and_not_what_failed_before() -> None:
    told = envelope(finished(State.CANCELLED, failure=Failure("unknown", "earlier")))
    assert told.keys() == KEYS
    assert (told["success"], told["error"], told["error_type"]) == (False, "The job was cancelled", "cancelled")


def test_a_message_is_unfolded_from_the_result() -> None:
    told = envelope(finished(State.COMPLETED, result={"success": True, "data": [1], "message": "half"}))
    assert (told["data"], told["message"]) == ([1], "half")


def test_data_that_only_looks_alike_is_left_as_it_is() -> None:
    result = {"success": True, "data": 1, "rows": 2}
    assert envelope(finished(State.COMPLETED, result=result))["data"] == result


@pytest.mark.parametrize("state", [State.PENDING, State.CLAIMED])
def test_a_job_that_is_not_finished_has_none(state: State) -> None:
    with pytest.raises(UsageError, match=state.value):
        envelope(finished(state))
