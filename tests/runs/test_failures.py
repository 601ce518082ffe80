"""What is said of failures to a person."""

from __future__ import annotations

import pytest

from longshore.errors import Failure
from longshore.runs.failures import complaint, short_name
from longshore.testing import make_job


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
def test_a_complaint_does_not_repeat_what_the_job_is_about(message: str, said: str) -> None:
    job = make_job({"url": "https://a.org/1"})
    assert complaint(job, Failure("processing", message)) == said


def test_errors_are_called_by_their_own_name() -> None:
    assert [short_name(name) for name in ("longshore.scrape.answers.StatusError", "KeyError", "")] == [
        "StatusError",
        "KeyError",
        "",
    ]
