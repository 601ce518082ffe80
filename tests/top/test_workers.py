"""Who is at work: by the roll, by who holds jobs, and who is gone."""

from __future__ import annotations

from typing import Any

from longshore.extensions.presence import PresentWorker, worker_info
from longshore.job import Job, State
from longshore.lease import WorkerId
from longshore.top.workers import FORGET, SeenWorkers


def present(label: str, **stored: Any) -> PresentWorker:
    return PresentWorker(WorkerId(label, f"{label}/1"), worker_info(stored))


def held(number: int, worker: str) -> Job:
    url = f"https://u:secret@a.org/{number}"
    return Job(id=str(number), run="r", kind="page", key="k", payload={"url": url}, state=State.CLAIMED, worker=worker)


def test_a_worker_is_shown_with_what_it_says_of_itself() -> None:
    stored = {
        "fleet": {"name": "vm", "number": 3},
        "membership": {"run": "r", "number": 3, "partitions": ["CA", "NV"]},
        "machine": "m1",
        "busy": 2,
        "of": 8,
    }
    [row] = SeenWorkers().note(0.0, [present("vm-3", **stored)], [])
    assert (row.label, row.registered, row.fleet, row.number) == ("vm-3", True, "vm", 3)
    assert row.partitions == ("CA", "NV")
    assert row.details == ("machine m1",)
    assert (row.busy, row.slots) == (2, 8)


def test_a_worker_may_say_anything_of_itself() -> None:
    stored = {"fleet": "vm", "membership": [1], "partitions": {"a": 1}, "busy": "very", "of": -1, "run": None}
    [row] = SeenWorkers().note(0.0, [present("w", **stored)], [])
    assert (row.fleet, row.number, row.partitions, row.busy, row.slots) == ("", None, (), None, None)


def test_a_worker_that_is_not_on_the_roll_is_seen_by_what_it_holds() -> None:
    [row] = SeenWorkers().note(0.0, [], [held(4, "w"), held(7, "w")])
    assert (row.label, row.registered, row.held, row.job_id) == ("w", False, 2, "4")
    assert row.job == "https://u:***@a.org/4"


def test_a_worker_that_goes_is_remembered_for_a_while_and_then_forgotten() -> None:
    seen = SeenWorkers()
    seen.note(0.0, [present("a"), present("b")], [held(1, "a")])
    gone, there = seen.note(10.0, [present("b")], [])
    assert (gone.label, gone.unseen, gone.held, gone.job) == ("a", 10.0, 0, "")
    assert (there.label, there.unseen) == ("b", 0.0)
    assert [row.label for row in seen.note(FORGET, [present("b")], [])] == ["b"]
