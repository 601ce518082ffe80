"""A worker's figures and the verdict on them (E14)."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.observe import Vitals
from longshore.observe.health import cpu_percent, memory_bytes, memory_percent


def vitals(**changes: Any) -> Vitals:
    given: dict[str, Any] = {
        "uptime": 60.0,
        "claimed": 10,
        "completed": 6,
        "failed": 2,
        "busy_seconds": 4.0,
        "errors_in_a_row": 0,
    }
    return Vitals(**(given | changes))


def test_rates_follow_from_the_counts() -> None:
    assert vitals().success_rate == 0.75
    assert vitals().average_seconds == 0.5
    assert vitals(completed=0, failed=0).success_rate == 1.0


def test_a_worker_without_faults_is_healthy() -> None:
    assert vitals().verdict == "healthy"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"queue_error": "refused"}, "the queue is out of reach (refused)"),
        ({"errors_in_a_row": 10}, "the last 10 attempts all failed"),
        ({"memory_percent": 97.0}, "97 % of the machine's memory is used"),
        ({"cpu_percent": 99.0}, "the processor is 99 % busy"),
    ],
)
def test_every_fault_is_named(changes: dict[str, Any], fault: str) -> None:
    assert vitals(**changes).verdict == fault
    assert fault in vitals(**(changes | {"errors_in_a_row": 11})).verdict or "errors_in_a_row" in changes


def test_the_machine_is_really_asked() -> None:
    assert 0 < memory_percent() <= 100
    assert memory_bytes() > 1_000_000
    assert 0 <= cpu_percent() <= 100
