"""Failures that are alike are one kind, and the queue finds them again by it (F7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import Failure
from longshore.job import Job
from longshore.queue import Selection
from longshore.top.failures import KINDS, FailureTally, failure_kinds, kind_of


def failure(message: str, exception: str = "app.PageError", error_type: str = "unknown") -> Failure:
    return Failure(error_type, message, exception)


def job(number: int, message: str, exception: str = "app.PageError") -> Job:
    return Job(id=str(number), run="r", kind="page", key=str(number), payload={}, failure=failure(message, exception))


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("Page https://a.org/3 has no title", "Page * has no title"),
        ("Item 17 of 200 is missing", "Item * of * is missing"),
        ("no field 'price' in \"row\"", "no field * in *"),
        ("order 8f14e45fceea is unknown", "order * is unknown"),
        ("first line\nsecond line", "first line*"),
        ("nothing differs", "nothing differs"),
        ("'phone'", "'phone'"),  # a KeyError
        ("'row 17'", "*"),
        ("x" * 500, "x" * 120 + "*"),
    ],
)
def test_what_differs_from_job_to_job_is_left_out(message: str, pattern: str) -> None:
    assert kind_of(failure(message)).pattern == pattern


@given(st.text(max_size=300), st.sampled_from(["ValueError", "app.errors.PageError", ""]))
def test_a_kind_always_selects_the_failure_it_was_made_of(message: str, exception: str) -> None:
    made_of = failure(message, exception)
    assert Selection(error=kind_of(made_of).error).matches_error(made_of)


@given(st.lists(st.sampled_from(["[", "]", "*", "?", "!", "abcde", "12", "'x'", " "]), max_size=12).map("".join))
def test_signs_that_mean_something_in_a_pattern_mean_themselves(message: str) -> None:
    made_of = failure(message)
    kind = kind_of(made_of)
    assert Selection(error=kind.error).matches_error(made_of)
    assert kind.error != "*"


def test_a_message_that_is_nothing_but_a_number_selects_by_its_exception_and_not_everything() -> None:
    selection = Selection(error=kind_of(failure("404", "app.HttpError")).error)
    assert selection.matches_error(failure("500", "app.HttpError"))
    assert not selection.matches_error(failure("404", "app.PageError"))


def test_failures_are_counted_by_kind_with_an_example_the_most_frequent_first() -> None:
    failed, retrying = FailureTally(), FailureTally()
    for number in range(3):
        failed.add(job(number, f"Page {number} has no title"))
    failed.add(job(9, "connection refused", "ConnectionError"))
    retrying.add(job(10, "Page 10 has no title"))
    first, second = failure_kinds(failed, retrying)
    assert (first.exception, first.pattern, first.failed, first.retrying) == ("PageError", "Page * has no title", 3, 1)
    assert (first.example, first.message) == ("0", "Page 0 has no title")
    assert (second.exception, second.failed, second.retrying) == ("ConnectionError", 1, 0)


def test_a_million_different_messages_need_no_more_room_than_a_hundred() -> None:
    tally = FailureTally()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for number in range(26 * 26):
        tally.add(job(number, f"word {letters[number // 26]}{letters[number % 26]} is wrong"))
    kinds = list(tally.counted())
    assert len(kinds) == KINDS + 1
    rest, count = kinds[-1]
    assert (rest.pattern, count) == ("", 26 * 26 - KINDS)
    assert Selection(error=rest.error).matches_error(failure("anything"))
