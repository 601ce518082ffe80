"""Who has which partitions (B1, B2): balanced, whole, stable, for any workers."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.fleet.partitions.assignment import Shares, assign, moved, spread
from longshore.fleet.partitions.us_states import US_STATES

partition_sets = st.sets(st.text(max_size=4), max_size=80)
worker_sets = st.sets(st.integers(0, 70), min_size=1, max_size=40)


def owners(shares: Shares) -> dict[str, int]:
    """Who has each partition; fails where two have one."""
    found: dict[str, int] = {}
    for number, share in shares.items():
        for partition in share:
            assert partition not in found, f"{partition} is with {found[partition]} and with {number}"
            found[partition] = number
    return found


def spans(shares: Shares) -> int:
    sizes = [len(share) for share in shares.values()]
    return max(sizes) - min(sizes)


@given(partition_sets, worker_sets)
def test_every_partition_has_exactly_one_worker_and_two_workers_differ_by_one_at_most(
    partitions: set[str], workers: set[int]
) -> None:
    shares = assign(partitions, workers)
    assert list(shares) == sorted(workers)
    assert owners(shares).keys() == partitions
    assert spans(shares) <= 1
    assert all(list(share) == sorted(share) for share in shares.values())


@given(st.permutations(sorted(US_STATES)), st.permutations(range(7)))
def test_it_depends_on_who_is_there_and_not_on_the_order_they_are_named_in(
    partitions: list[str], workers: list[int]
) -> None:
    assert assign(partitions, workers) == assign(set(US_STATES), set(range(7)))


@given(partition_sets, st.integers(1, 60))
def test_a_worker_that_is_added_takes_its_share_and_nothing_else_moves(partitions: set[str], workers: int) -> None:
    before, after = assign(partitions, range(workers)), assign(partitions, range(workers + 1))
    assert moved(before, after) == len(after[workers]) == len(partitions) // (workers + 1)


@given(partition_sets, st.integers(2, 60), st.data())
def test_when_one_of_a_fleet_dies_only_what_it_had_moves_and_it_comes_back_with_it(
    partitions: set[str], workers: int, data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, workers - 1))
    before = assign(partitions, range(workers))
    after = assign(partitions, set(range(workers)) - {gone})
    if gone != workers - 1:
        assert moved(before, after) == len(before[gone])
    else:
        assert moved(before, after) == len(partitions) // workers
    assert moved(after, before) == moved(before, after)


def test_the_51_states_on_10_workers_are_5_each_and_one_has_6() -> None:
    sizes = sorted(len(share) for share in assign(US_STATES, range(10)).values())
    assert sizes == [5] * 9 + [6]


def test_an_eleventh_worker_moves_4_of_the_51_states() -> None:
    assert moved(assign(US_STATES, range(10)), assign(US_STATES, range(11))) == 4


@pytest.mark.parametrize("workers", [1, 3, 7, 51, 60])
def test_any_number_of_workers_covers_the_51_states(workers: int) -> None:
    shares = assign(US_STATES, range(workers))
    assert owners(shares).keys() == US_STATES.keys()
    assert sum(not share for share in shares.values()) == max(0, workers - 51)


def test_where_several_are_missing_little_more_than_the_least_moves() -> None:
    chance = random.Random(5)
    least = actual = 0
    for _ in range(300):
        alive = set(chance.sample(range(14), 10))
        gone = chance.choice(sorted(alive))
        before = assign(US_STATES, alive)
        least += len(before[gone])
        actual += moved(before, assign(US_STATES, alive - {gone}))
    assert least <= actual < 1.7 * least


@given(partition_sets, st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_what_is_spread_goes_to_those_with_the_fewest(partitions: set[str], sizes: list[int]) -> None:
    onto: dict[int, Collection[str]] = {
        number: [f"own {number}.{n}" for n in range(size)] for number, size in enumerate(sizes)
    }
    shares = spread(partitions, {number: list(share) for number, share in onto.items()})
    assert owners(shares).keys() >= partitions
    assert all(set(share) >= set(onto[number]) for number, share in shares.items())
    gained = [number for number in shares if len(shares[number]) > len(onto[number])]
    fewest = min(len(share) for share in shares.values())
    assert all(len(shares[number]) <= fewest + 1 for number in gained)


def test_the_bundled_list_is_the_50_states_and_dc() -> None:
    assert len(US_STATES) == 51
    assert "DC" in US_STATES
    assert list(US_STATES) == sorted(US_STATES)
    assert len(set(US_STATES.values())) == 51
