"""An outcome that a medium cannot store becomes a failure that says so, in ever plainer words, and never for ever."""

from __future__ import annotations

import pytest

from longshore.job import Job
from longshore.lease import Lease, WorkerId
from longshore.outcome import Completed, Failed, Settlement
from longshore.settlement.repair import unstorable

LEASE = Lease(Job(id="1", run="r", kind="page", key="k", payload={}), WorkerId.new("w"), 0.0)


def message(settlement: Settlement) -> str:
    assert isinstance(settlement.outcome, Failed)
    assert not settlement.outcome.failure.retryable
    return settlement.outcome.failure.message


def test_a_medium_that_refuses_everything_ends_the_tries() -> None:
    first = unstorable(Settlement(LEASE, Completed("x"), 2.5), ValueError("caf\u00e9 1"))
    assert message(first) == "the outcome cannot be stored in this queue: caf\u00e9 1"
    assert first.seconds == 2.5
    second = unstorable(first, ValueError("caf\u00e9 2"))
    assert message(second) == r"'the outcome cannot be stored in this queue: caf\xe9 2'"
    with pytest.raises(ValueError, match="3"):
        unstorable(second, ValueError("caf\u00e9 3"))


def test_the_same_refusal_twice_is_enough() -> None:
    first = unstorable(Settlement(LEASE, Completed("x")), ValueError("too heavy"))
    with pytest.raises(ValueError, match="too heavy"):
        unstorable(first, ValueError("too heavy"))
