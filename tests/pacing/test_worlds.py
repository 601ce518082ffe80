"""The simulated worlds in which policies are judged (F4): they repeat exactly, and none lets through too much."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tests.pacing.worlds.draw import KINDS, draw
from tests.pacing.worlds.judge import judge, summary, verdict
from tests.pacing.worlds.learned import Learned
from tests.pacing.worlds.limiters import (
    Banning,
    Bucket,
    Changing,
    FixedWindow,
    HostLimiter,
    SlidingCounter,
    SlidingLog,
    Together,
)
from tests.pacing.worlds.others import OTHERS
from tests.pacing.worlds.world import Pace, best_possible, play


def greedy(limiter: HostLimiter, seconds: float) -> list[float]:
    """When a client is let through that asks as soon as the limiter accepts."""
    now, instants = 0.0, []
    while (now := limiter.free_at(now, 0)) < seconds:
        limiter.accept(now, 0)
        instants.append(now)
    return instants


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_repeats_exactly(kind: str) -> None:
    first, second = (play(draw(11, kind), Learned()) for _ in range(2))
    assert first == second
    assert first.accepted > 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_policy_gets_more_than_the_oracle(kind: str) -> None:
    policies: list[type[Pace]] = [Learned, OTHERS["AIMD"], OTHERS["CUBIC"]]
    for seed in range(3):
        world = draw(seed, kind)
        # Work that takes a random time takes more or less than its mean; so does noise. The oracle counts requests on
        # their way as in flight, and the host does not.
        most = 1.01 + 0.15 * (world.spread > 0) + 0.05 * (world.noise > 0)
        most *= 1 + 2 * world.there / world.service if world.at_once else 1
        for make in policies:
            assert verdict(world, make()).goodput <= most


def test_a_bucket_lets_through_its_burst_and_its_rate() -> None:
    assert len(greedy(Bucket(5.0, 20.0), 10.0)) == pytest.approx(70, abs=1)


@pytest.mark.parametrize("limiter", [SlidingLog(7, 3.0), FixedWindow(7, 3.0, 1.0)])
def test_a_window_lets_through_its_number(limiter: HostLimiter) -> None:
    instants = greedy(limiter, 30.0)
    assert len(instants) in (70, 77)
    if isinstance(limiter, SlidingLog):
        assert all(later - earlier >= 3.0 - 1e-6 for earlier, later in zip(instants, instants[7:], strict=False))


def test_a_sliding_counter_lets_through_about_its_number() -> None:
    assert len(greedy(SlidingCounter(20, 2.0, 0.3), 100.0)) == pytest.approx(1000, rel=0.05)


def test_the_strictest_of_several_limits_holds() -> None:
    instants = greedy(Together(SlidingLog(10, 5.0), Bucket(4.0, 1.0)), 50.0)
    assert len(instants) == pytest.approx(100, abs=10)
    assert min(later - earlier for earlier, later in pairwise(instants)) >= 0.25 - 1e-6


def test_a_limit_changes_at_its_time() -> None:
    instants = greedy(Changing((0.0, Bucket(10.0, 1.0)), (5.0, Bucket(1.0, 1.0))), 15.0)
    assert sum(at < 5 for at in instants) == pytest.approx(50, abs=2)
    assert sum(at >= 5 for at in instants) == pytest.approx(10, abs=2)


def test_a_ban_follows_refusals_and_ends() -> None:
    limiter = Banning(Bucket(1.0, 1.0), 3, 60.0, 20.0)
    for _ in range(3):
        limiter.refuse(1.0, 0)
    assert limiter.free_at(2.0, 0) == 21.0
    assert limiter.free_at(21.0, 0) == 21.0


def test_the_best_possible_is_that_of_the_limiter() -> None:
    world = draw(3, "token bucket")
    bucket = world.limiter(random.Random(0))
    assert isinstance(bucket, Bucket)
    assert best_possible(world) == pytest.approx(bucket.rate * world.seconds + bucket.burst, abs=2)


@pytest.mark.ledger("F4")
def test_over_random_worlds_no_host_is_left_alone_and_few_requests_are_refused() -> None:
    """The short form of `python -m benchmarks.pace_worlds`, whose results say how far the goals are."""
    verdicts = judge(Learned, range(8_000_000, 8_000_100))
    it = summary(verdicts)
    assert not [each for each in verdicts if each.silent]
    assert it["refused"] <= 0.025
    assert it["goodput"] >= 0.78
    assert it["score"] > summary(judge(OTHERS["AIMD"], range(8_000_000, 8_000_020)))["score"]
