"""The matrix of a trial counts each transition under the faults that were on, and names what was not reached (F12)."""

from __future__ import annotations

from longshore.conformance.history import ProcessHistory
from longshore.conformance.history.coverage import NO_FAULT, TRANSITIONS, coverage, table
from longshore.conformance.history.events import Answered, AnyEvent, Called, FaultSwitched, SettlementSent

SENT = SettlementSent(id="1", name=("r", "page", "a"), epoch=1, holder="anna", outcome="completed")


def call(number: int, verb: str, moment: int, path: str = "") -> Called:
    return Called(call=number, queue="q", verb=verb, path=path, settlements=(SENT,), moment=moment)


def histories(*events: AnyEvent) -> list[ProcessHistory]:
    switched = [
        FaultSwitched(fault="SIGKILL", on=True, process="anna", moment=3),
        FaultSwitched(fault="SIGKILL", on=False, process="anna", moment=5),
    ]
    return [ProcessHistory("conductor", switched), ProcessHistory("anna", events)]


def test_a_transition_counts_under_the_faults_that_were_on() -> None:
    found = coverage(
        histories(
            call(1, "submit", 1),
            Answered(call=1, new=2, duplicates=1, moment=2),
            call(2, "settle", 2, "watchdog"),
            Answered(call=2, accepted=(True,), moment=4),
            call(3, "settle", 6, "settler"),
            Answered(call=3, accepted=(False,), moment=6),
        )
    )
    assert found == {
        ("submit", NO_FAULT): 1,
        ("submit a duplicate", NO_FAULT): 1,
        ("complete", "SIGKILL"): 1,
        ("path watchdog", "SIGKILL"): 1,
        ("refused settlement", NO_FAULT): 1,
        ("path settler", NO_FAULT): 1,
    }


def test_a_call_without_an_answer_is_a_transition_of_its_own() -> None:
    found = coverage(histories(call(1, "settle", 4), call(2, "claim", 4), Answered(call=2, error="Lost", moment=4)))
    assert found == {("unknown answer", "SIGKILL"): 2}


def test_the_matrix_names_its_holes() -> None:
    text = table(coverage(histories(call(1, "prune", 4), Answered(call=1, changed=3, moment=4))), ["SIGKILL"])
    assert f"1 of {2 * len(TRANSITIONS)} cells were reached" in text
    (holes,) = [line for line in text.splitlines() if line.startswith("  SIGKILL: ")]
    assert "prune" not in holes
    assert "claim" in holes


def test_a_cell_that_cannot_be_reached_is_no_hole() -> None:
    text = table(coverage(histories()), ["SIGKILL"], {("reap", NO_FAULT): "it needs a fault"})
    assert f"0 of {2 * len(TRANSITIONS) - 1} cells were reached" in text
    (holes,) = [line for line in text.splitlines() if line.startswith("  none: ")]
    assert "reap" not in holes
    assert "  reap, none: it needs a fault" in text
