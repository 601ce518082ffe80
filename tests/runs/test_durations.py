"""How long attempts take: what is drawn where few were seen, where some are under way, where the tail is heavy."""

from __future__ import annotations

import random
from statistics import fmean, median

import pytest

from longshore.runs.estimate.durations import Durations

PLAYS = 200


def drawn(lengths: Durations, number: int = 20) -> list[float]:
    """What attempts may take, over many plays."""
    rng = random.Random(1)
    return sorted(play.sample() for play in (lengths.draw(rng) for _ in range(PLAYS)) for _ in range(number))


def longest(lengths: Durations, number: int) -> float:
    """Of so many attempts the longest, in the middle of many plays."""
    rng = random.Random(1)
    return median(lengths.draw(rng).longest(number) for _ in range(PLAYS))


def sample(spread: float, number: int, seed: int = 3) -> list[float]:
    rng = random.Random(seed)
    return [4 * rng.lognormvariate(0.0, spread) for _ in range(number)]


def test_what_is_drawn_is_like_what_was_seen() -> None:
    seen = sorted(sample(0.6, 400))
    found = drawn(Durations(seen, ()))
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert found[int(share * len(found))] == pytest.approx(seen[int(share * len(seen))], rel=0.15)
    assert Durations(seen, ()).mean == pytest.approx(fmean(seen), rel=0.1)


def test_lengths_that_hardly_differ_are_drawn_hardly_different() -> None:
    found = drawn(Durations([5.0 + n % 10 / 10 for n in range(200)], ()))
    assert found[0] >= 5.0
    assert found[int(0.99 * len(found))] < 8.0


def test_the_longest_of_many_is_longer_than_the_longest_that_was_seen() -> None:
    seen = sample(1.5, 50)
    assert longest(Durations(seen, ()), 5000) > max(seen)
    assert longest(Durations(seen, ()), 5) < max(seen)


def test_a_power_law_is_told_from_a_lognormal_one() -> None:
    rng = random.Random(5)
    heavy = Durations([2 * rng.paretovariate(1.2) for _ in range(600)], ())
    light = Durations(sample(0.5, 600), ())
    assert longest(heavy, 10_000) / longest(heavy, 100) > 8
    assert longest(light, 10_000) / longest(light, 100) < 8


def test_nothing_is_drawn_that_is_absurdly_long() -> None:
    seen = sample(2.0, 30)
    most = max(drawn(Durations(seen, ()), 200))
    assert most <= max(20 * max(seen), 4 * 2.718 ** (3.5 * 4))


def test_what_is_under_way_longer_than_all_that_ended_makes_all_longer() -> None:
    ended = [1.0, 1.2, 0.8, 1.1]
    before, after = Durations(ended, ()), Durations(ended, [10.0] * 8)
    assert after.mean > 3 * before.mean
    assert median(drawn(after)) > median(drawn(before))


def test_what_has_just_begun_says_nothing() -> None:
    seen = sample(0.6, 200)
    assert Durations(seen, [0.0] * 16).mean == pytest.approx(Durations(seen, ()).mean, rel=0.1)


@pytest.mark.parametrize("age", [0.0, 1.0, 6.0, 40.0, 4000.0])
def test_what_is_left_of_an_attempt_is_never_less_than_nothing(age: float) -> None:
    lengths, rng = Durations(sample(0.8, 100), [3.0, 50.0]), random.Random(1)
    rests = [lengths.draw(rng).remaining(age) for _ in range(PLAYS)]
    assert min(rests) >= 0
    assert max(rests) > 0


def test_the_older_an_attempt_with_a_heavy_tail_the_more_is_left_of_it() -> None:
    lengths = Durations(sample(1.5, 300), ())

    def left(age: float) -> float:
        rng = random.Random(1)
        return median(lengths.draw(rng).remaining(age) for _ in range(PLAYS))

    assert left(60.0) > 2 * left(1.0)


def test_who_meets_an_attempt_under_way_meets_a_long_one() -> None:
    """Of one in ten that takes a hundred times as long, nine of ten instants are."""
    lengths, rng = Durations([1.0] * 180 + [100.0] * 20, ()), random.Random(1)
    rests = [lengths.draw(rng).remaining_if_found(0.0) for _ in range(400)]
    assert fmean(rest > 1.0 for rest in rests) > 0.6


def test_one_length_alone_is_no_certainty() -> None:
    found = drawn(Durations([4.0], ()))
    assert found[int(0.97 * len(found))] > 4.5


def test_attempts_that_took_no_time_at_all_are_no_trouble() -> None:
    found = drawn(Durations([0.0] * 50, [0.0]))
    assert 0 < found[0] <= found[-1] < 1.0
