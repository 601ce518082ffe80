"""Errors: which may be tried again, and what is kept of them."""

from __future__ import annotations

import inspect
import re
import socket
import urllib.error

import msgspec
import pytest

from longshore import errors
from longshore.errors import (
    ConnectionFailedError,
    CrashedError,
    Failure,
    LongshoreError,
    ProcessingError,
    QueueUnavailableError,
    TimedOutError,
    UsageError,
    ValidationError,
    WorkerError,
)

TREE = {
    name: error
    for name, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, LongshoreError) and error.__module__ == errors.__name__
}


def test_the_tree_that_is_drawn_is_the_tree_that_is_there() -> None:
    drawn = re.findall(r"^ +[│├└─ ]*(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(TREE)


@pytest.mark.parametrize("error", TREE.values(), ids=TREE.keys())
def test_every_error_says_what_it_means_and_how_to_exit(error: type[LongshoreError]) -> None:
    assert error.__name__.endswith("Error")
    assert error.__doc__
    assert error.exit_code == (2 if issubclass(error, UsageError) else 1)


@pytest.mark.parametrize(
    ("error", "error_type", "retryable"),
    [
        (ValidationError("bad"), "validation", False),
        (ConnectionFailedError("gone"), "connection", True),
        (ProcessingError("odd"), "processing", True),
        (ProcessingError("odd", retryable=False), "processing", False),
        (ValidationError("bad", retryable=True), "validation", True),
        (TimedOutError("slow"), "timeout", True),
        (CrashedError("dead"), "crash", True),
        (WorkerError("?"), "unknown", True),
        (ValueError("?"), "unknown", True),
        (TimeoutError("slow"), "timeout", True),
        (ConnectionResetError("reset"), "connection", True),
        (socket.gaierror("no such host"), "connection", True),
        (urllib.error.URLError("unreachable"), "connection", True),
        (QueueUnavailableError("busy"), "unknown", True),
    ],
)
def test_a_failure_knows_what_kind_it_is_and_whether_to_try_again(
    error: Exception, error_type: str, retryable: bool
) -> None:
    failure = Failure.of(error)
    assert (failure.error_type, failure.retryable) == (error_type, retryable)


def test_a_handler_that_overrules_one_error_does_not_change_the_next() -> None:
    assert not ProcessingError("gone", retryable=False).retryable
    assert ProcessingError("again").retryable


def test_the_traceback_of_a_surprise_is_kept() -> None:
    try:
        dict[str, int]()["missing"]
    except KeyError as error:
        failure = Failure.of(error)
    assert failure.exception == "KeyError"
    assert "test_errors.py" in failure.traceback
    assert "KeyError: 'missing'" in failure.traceback


@pytest.mark.parametrize("error", [ValidationError("bad"), TimedOutError("slow"), CrashedError("dead")])
def test_what_was_foreseen_needs_no_traceback(error: WorkerError) -> None:
    assert Failure.of(error).traceback == ""


def test_an_error_without_a_message_is_called_by_its_name() -> None:
    assert Failure.of(RuntimeError()).message == "RuntimeError"


def test_the_exception_is_named_in_full() -> None:
    assert Failure.of(ProcessingError("x")).exception == "longshore.errors.ProcessingError"


def test_a_failure_survives_being_stored() -> None:
    failure = Failure.of(ProcessingError("Grüße", retryable=False))
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
