"""How many workers, and when (D7): by what is pending, within bounds and machine, without flapping."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.clock import ManualClock
from longshore.errors import UsageError
from longshore.fleet.sizing.autoscale import (
    HOLD,
    WORKER_BYTES,
    Decision,
    FleetMembers,
    Limit,
    Machine,
    QueueLoad,
    Scaler,
    ScalingPolicy,
    SizeBounds,
)
from longshore.job import NewJob
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals

GB = 2**30
ROOMY = Machine(available=900 * GB, total=1000 * GB, processors=64, busy=0.1)
LOOK = 5.0

loads = st.builds(QueueLoad, pending=st.integers(0, 60_000), claimed=st.integers(0, 50))
bounds = st.tuples(st.integers(0, 20), st.integers(1, 40)).map(lambda pair: SizeBounds(min(pair), max(pair)))
machines = st.builds(
    Machine,
    available=st.integers(0, 16 * GB),
    total=st.just(16 * GB),
    processors=st.integers(1, 16),
    busy=st.floats(0, 1),
)


@dataclass
class Yard:
    """A fleet that does at once what is decided, on a clock that stands still between two looks."""

    policy: ScalingPolicy
    machine: Machine = ROOMY
    live: set[int] = field(default_factory=set)
    draining: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.scaler = Scaler(self.policy, self.clock)

    def look(self, pending: int, claimed: int = 0, *, after: float = LOOK) -> Decision:
        self.clock.advance(after)
        crew = FleetMembers(frozenset(self.live), frozenset(self.draining), frozenset(self.given_up))
        weight = max((*self.machine.workers, WORKER_BYTES))
        machine = replace(self.machine, workers=(weight,) * crew.processes)
        decision = self.scaler.look(QueueLoad(pending, claimed), crew, machine)
        assert not set(decision.start) & (self.live | self.draining | self.given_up), "a number is one worker's alone"
        assert not (decision.start and decision.drain)
        self.live |= set(decision.start)
        self.live -= set(decision.drain)
        self.draining |= set(decision.drain)
        return decision

    def settled(self, pending: int) -> int:
        """How many work once nothing changes any more."""
        self.draining.clear()
        for _ in range(40):
            self.look(pending, 1)
            self.draining.clear()
        return len(self.live)


# The target


@pytest.mark.parametrize(
    ("pending", "claimed", "target"),
    [(0, 0, 1), (1, 0, 1), (1000, 0, 1), (1001, 0, 2), (20_000, 9, 20), (50_000, 0, 50), (10**9, 0, 50)],
)
def test_there_is_a_worker_for_every_thousand_within_the_bounds(pending: int, claimed: int, target: int) -> None:
    assert ScalingPolicy(SizeBounds(1, 50), per=1000).target(QueueLoad(pending, claimed)) == target


def test_a_fleet_that_may_be_empty_is_not_while_a_job_is_held() -> None:
    policy = ScalingPolicy(SizeBounds(0, 50))
    assert [policy.target(QueueLoad(0, claimed)) for claimed in (0, 1, 9)] == [0, 1, 1]


@given(loads, bounds, st.integers(1, 5000))
def test_what_is_needed_is_never_less_than_the_target_and_both_are_within_the_bounds(
    load: QueueLoad, within: SizeBounds, per: int
) -> None:
    policy = ScalingPolicy(within, per)
    assert within.lowest <= policy.target(load) <= policy.needed(load) <= within.highest


@given(bounds)
def test_bounds_are_read_as_they_are_written(within: SizeBounds) -> None:
    assert SizeBounds.parse(str(within), "--autoscale") == within


def test_bounds_that_are_none_are_refused_by_the_name_of_the_option() -> None:
    with pytest.raises(UsageError, match="--autoscale cannot be '50'"):
        SizeBounds.parse("50", "--autoscale")


# Up


def test_it_grows_at_once_and_doubles_at_most() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live={0})
    starts = [yard.look(20_000).start for _ in range(6)]
    assert [len(start) for start in starts] == [1, 2, 4, 8, 4, 0]
    assert yard.live == set(range(20))


def test_the_lower_bound_is_reached_in_one_step() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(8, 50)))
    assert yard.look(1).start == tuple(range(8))


def test_a_number_that_became_free_is_given_again_but_not_while_its_worker_drains() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live={0, 3}, draining={1})
    assert yard.look(4000).start == (2, 4)


def test_the_decision_says_why() -> None:
    decision = Yard(ScalingPolicy(SizeBounds(1, 50)), live={0}).look(2500)
    assert decision.why == "2,500 pending, one worker for each 1,000 within 1:50"
    assert (decision.target, decision.limit) == (3, None)


def test_nothing_is_started_where_nothing_is_left_to_do() -> None:
    assert Yard(ScalingPolicy(SizeBounds(3, 50))).look(0, 0).start == ()
    assert Yard(ScalingPolicy(SizeBounds(3, 50))).look(0, 1).start == (0, 1, 2)


def test_a_worker_that_was_given_up_is_not_replaced() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), given_up={0})
    assert yard.look(900).start == ()
    assert yard.look(1900).start == (1,), "a second place is another matter"


# Down


def test_it_shrinks_only_after_fewer_have_sufficed_for_a_minute() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live=set(range(20)))
    yard.look(20_000)
    drains = [yard.look(0, 3).drain for _ in range(int(HOLD / LOOK) + 1)]
    assert not any(drains[:-1])
    assert drains[-1] == tuple(range(19, 0, -1)), "the highest numbers, down to the minimum"
    assert yard.live == {0}


def test_it_follows_a_backlog_that_melts_a_minute_behind() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live=set(range(20)))
    sizes = []
    for pending in range(20_000, -1, -100):
        yard.look(pending, 1)
        sizes.append(len(yard.live))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 2, "1,200 were pending a minute ago"
    assert yard.settled(0) == 1


def test_a_supervisor_that_has_just_started_drains_nobody_yet() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live=set(range(9)))
    assert yard.look(0, after=0).drain == ()
    assert yard.look(0, after=HOLD - 1).drain == ()
    assert len(yard.look(0, after=1).drain) == 8


swings = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1.0, 5.0, 59.0, 61.0, 300.0])), min_size=2, max_size=60)


@given(st.integers(1, 19), swings)
def test_a_number_that_swings_around_a_boundary_moves_at_most_one_worker_once(
    boundary: int, swing: list[tuple[float, float]]
) -> None:
    """However slow or fast it swings: once a worker was started for it, the worker stays."""
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live=set(range(boundary)))
    low, high = ceil(boundary * 1000 * 0.92), ceil(boundary * 1000 * 1.05)
    decisions = [yard.look(int(low + (high - low) * place), 1, after=after) for place, after in swing]
    grown = next((i for i, each in enumerate(decisions) if each.start), len(decisions))
    assert not any(each.start or each.drain for each in decisions[grown + 1 :])
    assert len(yard.live) - boundary == any(each.start for each in decisions)


steps = st.lists(st.tuples(st.integers(0, 40_000), st.floats(0.1, 90)), min_size=1, max_size=60)


@given(bounds, steps)
def test_nobody_is_drained_who_was_needed_within_the_last_minute(
    within: SizeBounds, course: list[tuple[int, float]]
) -> None:
    policy = ScalingPolicy(within)
    yard = Yard(policy)
    needed: list[tuple[float, int]] = []
    for pending, after in course:
        decision = yard.look(pending, 1, after=after)
        now = yard.clock.monotonic()
        needed.append((now, policy.needed(QueueLoad(pending, 1))))
        if decision.drain:
            assert len(yard.live) >= max(number for at, number in needed if at >= now - HOLD)
        yard.draining.clear()
        assert within.lowest <= len(yard.live) <= within.highest


@given(bounds, st.integers(0, 60_000), steps)
def test_when_nothing_changes_any_more_it_comes_to_rest_near_its_target(
    within: SizeBounds, pending: int, before: list[tuple[int, float]]
) -> None:
    policy = ScalingPolicy(within)
    yard = Yard(policy)
    for earlier, after in before:
        yard.look(earlier, 1, after=after)
        yard.draining.clear()
    size = yard.settled(pending)
    assert policy.target(QueueLoad(pending, 1)) <= size <= policy.needed(QueueLoad(pending, 1))
    assert not any(decision.start or decision.drain for decision in [yard.look(pending, 1) for _ in range(30)])


# The machine


@given(bounds, machines, loads)
def test_no_more_are_started_than_bound_memory_and_processors_allow(
    within: SizeBounds, machine: Machine, load: QueueLoad
) -> None:
    yard = Yard(ScalingPolicy(within), machine)
    for _ in range(3):
        before = len(yard.live)
        free = machine.available - machine.total // 10
        started = yard.look(load.pending, load.claimed).start
        # What the workers of the step before took is still counted as free here, so each step is judged by itself.
        if started and len(yard.live) > max(within.lowest, 1):
            assert len(started) * WORKER_BYTES <= free
            assert len(yard.live) <= min(within.highest, 8 * machine.processors)
            assert machine.busy < 0.85 or len(yard.live) <= 2 * machine.processors
        assert len(started) <= max(before, within.lowest, 1)


def test_memory_is_measured_by_the_largest_worker_and_a_tenth_stays_free() -> None:
    machine = Machine(available=5 * GB, total=20 * GB, processors=64, busy=0, workers=(GB // 10, GB))
    assert machine.fits_memory() == 2 + 3
    assert replace(machine, workers=()).fits_memory() == 3 * GB // WORKER_BYTES
    assert replace(machine, available=GB).fits_memory() == 2, "none more; but those that are there may stay"


def test_busy_processors_hold_growth_back_and_drain_nobody() -> None:
    machine = replace(ROOMY, processors=2, busy=0.99)
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), machine, live=set(range(10)))
    decision = yard.look(30_000)
    assert (decision.start, decision.drain, decision.limit) == ((), (), Limit.PROCESSORS)
    assert decision.why.endswith("held back by the processors")
    assert (
        len(Yard(ScalingPolicy(SizeBounds(1, 50)), replace(machine, busy=0.2), live=set(range(10))).look(30_000).start)
        == 6
    )


def test_the_lower_bound_is_the_users_word_whatever_the_machine_says() -> None:
    full = Machine(available=0, total=GB, processors=1, busy=1)
    assert len(Yard(ScalingPolicy(SizeBounds(12, 50)), full).look(1).start) == 12
    assert len(Yard(ScalingPolicy(SizeBounds(0, 50)), full).look(1).start) == 1, "or the work would never be done"


def test_where_memory_runs_short_one_leaves_after_the_other_and_none_comes_back_soon() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 50)), live=set(range(10)))
    yard.machine = replace(ROOMY, available=49 * GB)
    first = yard.look(50_000)
    assert (first.drain, first.limit) == ((9,), Limit.MEMORY)
    assert "memory is short: 50,176 MB of 1,024,000 MB left" in first.why
    assert yard.look(50_000).drain == (), "one is still on its way out"
    yard.draining.clear()
    assert yard.look(50_000).drain == (8,)
    yard.draining.clear()
    yard.machine = ROOMY
    assert yard.look(50_000).start == ()
    assert len(yard.look(50_000, after=HOLD).start) == 8


def test_those_that_still_drain_count_towards_the_upper_bound() -> None:
    yard = Yard(ScalingPolicy(SizeBounds(1, 10)), live={0}, draining=set(range(1, 10)))
    held = yard.look(10_000)
    assert (held.start, held.limit) == ((), Limit.BOUND)
    yard.draining = {9}
    assert yard.look(10_000).start == (1,)


# A burst, on a real queue


async def test_a_burst_scales_up_and_back_and_nothing_is_lost(long: bool) -> None:
    jobs, per = (20_000, 1000) if long else (3000, 150)
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await queue.submit([NewJob(kind="page", payload={}, key=str(n), run="burst") for n in range(jobs)])
    yard = Yard(ScalingPolicy(SizeBounds(1, 50), per), live={0}, clock=clock)
    sizes, hands = list[int](), dict[int, list[Lease]]()
    while not sizes or hands or len(yard.live) > 1:
        count = totals(await queue.stats("burst"))
        yard.look(count.pending, count.claimed)
        sizes.append(len(yard.live))
        assert len(sizes) < 200, "it never came to rest"
        # Between two looks everyone settles what it held, and those that do not drain take more.
        held = [lease for leases in hands.values() for lease in leases]
        assert all(await queue.settle([Settlement(lease, Completed()) for lease in held]))
        claimed = {number: await queue.claim(want(number, limit=per // 25)) for number in sorted(yard.live)}
        hands = {number: leases for number, leases in claimed.items() if leases}
        yard.draining.clear()
    assert max(sizes) > 10
    assert sizes[-1] == 1
    assert totals(await queue.stats("burst")).completed == jobs


def want(number: int, limit: int) -> Want:
    return Want(worker=WorkerId(f"worker {number}", "1"), limit=limit, lease=timedelta(minutes=5))
