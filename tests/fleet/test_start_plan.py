"""Which workers a fleet starts, and with what (B1, B5)."""

from __future__ import annotations

import pytest

from longshore.errors import UsageError
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import AssignmentTable
from longshore.fleet.partitions.start_plan import start_plan
from longshore.fleet.partitions.us_states import US_STATES
from longshore.queue import Count


@pytest.mark.parametrize("size", [1, 3, 7, 10, 60])
def test_every_partition_has_exactly_one_worker(size: int) -> None:
    lineup = start_plan(size, US_STATES)
    assert lineup.numbers == tuple(range(size))
    assert sorted(name for share in lineup.shares.values() for name in share) == sorted(US_STATES)


def test_a_trial_has_the_first_two_with_what_they_have_in_the_whole_fleet() -> None:
    whole, trial = start_plan(10, US_STATES), start_plan(10, US_STATES, trial=True)
    assert trial.numbers == (0, 1)
    assert trial.shares == {number: whole.shares[number] for number in (0, 1)}
    assert trial.limits_of(1) == frozenset(whole.shares[1])
    assert whole.limits_of(1) is None


def test_a_trial_without_partitions_is_two_workers_that_share_everything() -> None:
    trial = start_plan(10, (), trial=True)
    assert (trial.numbers, trial.limits_of(0), trial.partitioned) == ((0, 1), None, False)


def test_a_trial_leaves_out_a_worker_that_would_have_nothing() -> None:
    assert start_plan(10, ["CA"], trial=True).numbers == (0,)


def test_only_some_partitions_are_shared_by_all() -> None:
    lineup = start_plan(3, US_STATES, only=["CA", "TX"])
    assert lineup.shares == assign(["CA", "TX"], range(3))
    assert lineup.limits_of(2) == frozenset({"CA", "TX"})


def test_a_partition_that_is_not_there_is_refused_and_those_there_are_named() -> None:
    with pytest.raises(UsageError, match=r"no partition CZ here\. There are: AK, .* and 41 more"):
        start_plan(3, US_STATES, only=["CA", "CZ"])


def test_where_nothing_is_known_what_is_asked_for_is_believed() -> None:
    assert start_plan(2, (), only=["CA"]).shares == {0: ("CA",), 1: ()}


@pytest.mark.parametrize("taken", [{0}, {0, 1, 2}, {1, 7}])
def test_with_the_workers_of_other_fleets_every_partition_still_has_exactly_one(taken: set[int]) -> None:
    lineup = start_plan(3, US_STATES, taken=taken)
    assert lineup.numbers == (0, 1, 2)
    own = [name for share in lineup.shares.values() for name in share]
    assert len(own) == len(set(own))
    assert len(own) == pytest.approx(len(US_STATES) * 3 / (3 + len(taken)), abs=3)


def test_a_worker_has_its_own_number_among_the_others_or_the_lowest_one_free() -> None:
    whole = assign(US_STATES, {0, 1, 2, 3})
    assert start_plan(2, US_STATES, taken={1, 2}).shares == {0: whole[0], 1: whole[3]}


def test_a_trial_has_what_it_has_in_the_whole_fleet_whoever_else_is_there() -> None:
    assert start_plan(10, US_STATES, trial=True, taken={0, 1}) == start_plan(10, US_STATES, trial=True)


def test_a_table_says_who_has_what() -> None:
    table = AssignmentTable({0: ["TX"], 1: ["CA"]})
    assert start_plan(2, ["CA", "TX"], assigns=table.assign).shares == {0: ("TX",), 1: ("CA",)}


def test_the_work_of_a_trial_is_that_of_its_partitions() -> None:
    counts = [Count(partition=name, pending=1) for name in ("A", "B", "C", "")]
    assert start_plan(3, ["A", "B", "C"]).counts(counts) == counts
    trial = start_plan(3, ["A", "B", "C"], trial=True)
    assert {count.partition for count in trial.counts(counts)} == {*trial.shares[0], *trial.shares[1]}


def test_workers_that_are_limited_to_other_partitions_get_no_share_of_these() -> None:
    plan = start_plan(1, "ABCD", only=["C", "D"], apart={0})
    assert plan.shares == {0: ("C", "D")}
