"""What a worker publishes about itself is stored under the same keys in every version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from longshore.extensions.presence import FleetInfo, MembershipInfo, WorkerInfo, worker_info

FULL = WorkerInfo(
    machine="m",
    slots=8,
    busy=2,
    kinds=("page",),
    fleet=FleetInfo(name="vm", number=3),
    membership=MembershipInfo(run=None, number=3, partitions=("CA",)),
    partitions=("CA", "NV"),
    run="r",
)
STORED = {
    "machine": "m",
    "of": 8,
    "busy": 2,
    "kinds": ["page"],
    "fleet": {"name": "vm", "number": 3},
    "membership": {"run": None, "number": 3, "partitions": ["CA"]},
    "partitions": ["CA", "NV"],
    "run": "r",
}


def stored(info: WorkerInfo) -> Any:
    return msgspec.json.decode(msgspec.json.encode(info))


def test_the_stored_keys_are_the_same_in_every_version() -> None:
    assert stored(FULL) == STORED
    assert worker_info(STORED) == FULL


def test_what_a_worker_does_not_say_is_not_stored_and_every_run_is_null() -> None:
    assert stored(WorkerInfo()) == {}
    assert stored(WorkerInfo(run=None)) == {"run": None}
    assert stored(WorkerInfo(membership=MembershipInfo(run=None))) == {
        "membership": {"run": None, "number": None, "partitions": []}
    }


def test_a_key_of_another_version_is_ignored() -> None:
    assert worker_info({**STORED, "shoe size": 43, "fleet": {**FULL_FLEET, "colour": "blue"}}) == FULL


FULL_FLEET = {"name": "vm", "number": 3}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("of", -1),
        ("of", True),
        ("busy", "many"),
        ("kinds", "all of them"),
        ("kinds", [1]),
        ("fleet", "vm"),
        ("membership", [1]),
        ("partitions", {"a": 1}),
        ("machine", 7),
        ("run", 7),
    ],
)
def test_a_field_of_another_type_counts_as_not_said(key: str, value: object) -> None:
    rest = {name: said for name, said in STORED.items() if name != key}
    assert worker_info({**STORED, key: value}) == worker_info(rest)


@pytest.mark.parametrize("value", [None, 7, "text", [], [1]])
def test_what_is_no_object_says_nothing(value: object) -> None:
    assert worker_info(value) == WorkerInfo()


def test_a_member_says_in_its_membership_which_run_it_works_on() -> None:
    assert (WorkerInfo().working_on, WorkerInfo(run="r").working_on, WorkerInfo(run=None).working_on) == (
        UNSET,
        "r",
        None,
    )
    assert WorkerInfo(run="r", membership=MembershipInfo(run="s")).working_on == "s"
