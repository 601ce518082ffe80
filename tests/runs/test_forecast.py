"""A watch that sees what is to come: closed hosts, pauses, limits, kinds not met yet, jobs that lead to more."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.extensions.presence import WorkerInfo
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.pacing.host_rate import HostRate
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.runs.control.pause import EVERYTHING, pause, resume
from longshore.runs.estimate.estimate import Binding
from longshore.runs.estimate.forecast import Forecast

LEASE = timedelta(hours=10)
WORKER = WorkerId.new("ann")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture
def forecast(queue: MemoryQueue, clock: ManualClock) -> Forecast:
    return Forecast(queue, "r", clock)


async def claim(queue: MemoryQueue, number: int, kind: str = "page") -> list[Lease]:
    return await queue.claim(Want(worker=WORKER, limit=number, lease=LEASE, run="r", kinds=frozenset({kind})))


async def begun(queue: MemoryQueue, clock: ManualClock, *, host: str = "", kind: str = "page", jobs: int = 40) -> None:
    """A run in the middle: one worker, two at once, two seconds a job, ten jobs done."""
    await queue.register(WORKER, LEASE, WorkerInfo(run="r", busy=0, slots=2))
    await queue.submit([new_job(kind, {"n": n}, run="r", host=host) for n in range(jobs)])
    for _ in range(5):
        leases = await claim(queue, 2, kind)
        clock.advance(2.0)
        await queue.settle([Settlement(lease, Completed(), 2.0) for lease in leases])


async def stand(queue: MemoryQueue, host: str, *, closed_for: float = 0.0, rate: float = 1000.0) -> None:
    """What is known of a host: how many it lets through, and for how long it is closed."""
    shelf = await queue.read_entries("pace", frozenset({host}))
    until = shelf.now + closed_for if closed_for else 0.0
    standing = HostRate(rate=rate, since=0.0, grown_at=0.0, pressed=False, closed_until=until)
    note = StateEntry(host, shelf.get(host).version or ABSENT, msgspec.to_builtins(standing))
    assert (await queue.swap_entries("pace", [note]))[0] is not None


async def test_a_host_that_is_closed_is_waited_for_though_its_rate_holds_nobody_back(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock, host="shut.org")
    await stand(queue, "shut.org", closed_for=900.0)
    found = (await forecast.look()).estimate
    assert (found.binds, found.host) == (Binding.HOST, "shut.org")
    assert found.p50 is not None
    assert found.p50 >= 850


async def test_of_a_closed_host_nothing_is_said_once_it_is_open(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock, host="shut.org")
    await stand(queue, "shut.org", closed_for=30.0)
    (load,) = (await forecast.look()).evidence.hosts
    assert load.closed_for == pytest.approx(30.0)
    assert load.jobs == pytest.approx(30)
    clock.advance(31.0)
    look = await forecast.look()
    assert look.evidence.hosts == ()
    assert look.estimate.binds is Binding.WORKERS


async def test_a_host_for_which_nothing_waits_holds_nobody_up(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock, host="a.org")
    await stand(queue, "shut.org", closed_for=900.0)
    assert (await forecast.look()).evidence.hosts == ()


async def test_a_glance_sees_closed_hosts_and_pauses_too(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock, host="shut.org")
    await stand(queue, "shut.org", closed_for=900.0)
    look = await forecast.glance()
    assert [load.host for load in look.evidence.hosts] == ["shut.org"]
    await pause(queue, "r")
    look = await Forecast(queue, "r", clock).glance()
    assert look.estimate.unknown == "it is paused"


@pytest.mark.parametrize("what", ["r", EVERYTHING])
async def test_of_a_run_that_is_paused_no_time_is_given_until_it_goes_on(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast, what: str
) -> None:
    await begun(queue, clock)
    await pause(queue, what)
    look = await forecast.look()
    assert (look.estimate.p50, look.estimate.unknown) == (None, "it is paused")
    assert not look.unattended
    assert list(forecast.blockers.paused) == [what]
    await resume(queue, what)
    clock.advance(6.0)
    look = await forecast.look()
    assert look.estimate.p50 is not None
    assert forecast.blockers.paused == {}


async def test_anothers_pause_is_none_of_this_run(queue: MemoryQueue, clock: ManualClock, forecast: Forecast) -> None:
    await begun(queue, clock)
    await pause(queue, "other")
    assert (await forecast.look()).estimate.p50 is not None
    assert forecast.blockers.paused == {}


async def test_kinds_of_which_nothing_finished_make_the_estimate_less_sure(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock)
    known = (await forecast.look()).estimate
    await queue.submit([new_job("doc", {"n": n}, run="r") for n in range(30)])
    unmet = await forecast.look()
    assert unmet.evidence.unmet == pytest.approx(0.5)
    assert known.p50
    assert known.p90
    found = unmet.estimate
    assert found.p50
    assert found.p90
    assert found.p90 / found.p50 > 1.3 * known.p90 / known.p50
    for seen in (0.36, 0.1):
        leases = await claim(queue, 2 if seen == 0.36 else 8, "doc")
        await queue.settle([Settlement(lease, Completed(), 2.0) for lease in leases])
        assert (await forecast.look()).evidence.unmet == pytest.approx(seen, abs=0.05)


async def test_jobs_that_lead_to_more_are_reckoned_with(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    """Of every two jobs that finish one adds another, and so do those."""
    await begun(queue, clock, jobs=210)
    await forecast.look()
    for step in range(40):
        leases = await claim(queue, 2)
        clock.advance(2.0)
        more = (new_job("page", {"more": step}),)
        await queue.settle(
            [Settlement(lease, Completed(jobs=more if n else ()), 2.0) for n, lease in enumerate(leases)]
        )
        await forecast.look()
    look = await forecast.look()
    assert look.count.remaining == 160
    assert look.evidence.more == pytest.approx(1.0, rel=0.2)
    assert look.estimate.p50 == pytest.approx(320, rel=0.25)


async def test_of_a_run_that_grows_faster_than_it_is_done_no_time_is_given(
    queue: MemoryQueue, clock: ManualClock, forecast: Forecast
) -> None:
    await begun(queue, clock)
    await forecast.look()
    for step in range(10):
        leases = await claim(queue, 2)
        clock.advance(2.0)
        await queue.settle(
            [
                Settlement(lease, Completed(jobs=tuple(new_job("page", {"s": (step, n, k)}) for k in range(2))), 2.0)
                for n, lease in enumerate(leases)
            ]
        )
        await forecast.look()
    found = (await forecast.look()).estimate
    assert (found.p50, found.unknown) == (None, "its jobs add more jobs than finish")
    # Where it may not have so many, there is an end.
    await set_limits(queue, "r", GrowthLimits(max_jobs=80))
    clock.advance(5.0)
    found = (await forecast.look()).estimate
    assert found.p50 == pytest.approx(50, rel=0.25)
