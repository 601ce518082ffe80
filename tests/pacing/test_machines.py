"""Machines that cannot share a rate quickly: together they keep to the user's limits (F4)."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.scrape.limited_site import JumpingClock, TokenBucket, ask_for_ever

from longshore.clock import SystemClock
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.lease import WorkerId
from longshore.media import open_queue
from longshore.pacing.host_rate import RatePolicy
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.machine_count import MachineCount
from longshore.pacing.store import LocalRateStore

MACHINES = ["ash", "elm", "oak", "yew"]


@pytest.fixture(params=["folder", "git"])
def queue_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"dir://{tmp_path}/jobs"
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "jobs.git")], check=True)
    return f"git+file://{tmp_path}/jobs.git"


@pytest.fixture
async def counts(queue_url: str) -> AsyncIterator[list[MachineCount]]:
    """The count of each machine, after all have registered."""
    async with AsyncExitStack() as stack:
        queues = []
        for _ in MACHINES:
            queues.append(await open_queue(queue_url))
            stack.push_async_callback(queues[-1].close)
        for queue, machine in zip(queues, MACHINES, strict=True):
            registry = require(queue, WorkerRegistry, "It counts no workers.")
            for number in range(2):
                worker = WorkerId.new(f"{machine}-{number}")
                await registry.register(worker, timedelta(minutes=5), WorkerInfo(machine=machine))
        counts = [MachineCount(queue, SystemClock()) for queue in queues]
        await asyncio.gather(*(count.read() for count in counts))
        yield counts


@pytest.mark.ledger("F4")
@pytest.mark.parametrize(
    "policy",
    [RatePolicy(first=10.0, fastest=10.0), RatePolicy(fastest=10.0), RatePolicy(delay=(0.1, 0.1))],
    ids=["rate", "learned", "delay"],
)
async def test_four_machines_ask_a_site_no_faster_than_the_user_allowed(
    counts: list[MachineCount], policy: RatePolicy
) -> None:
    clock = JumpingClock()
    site = TokenBucket(clock, 1000, 1000)
    paces = [LearnedLimiter(LocalRateStore(clock), clock, policy=policy, machines=count) for count in counts]
    asking = [asyncio.ensure_future(ask_for_ever(site, pace, 0.05)) for pace in paces for _ in range(8)]
    await clock.run(60)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    for pace in paces:
        await pace.close()
    for begin in range(60):
        assert sum(begin <= at < begin + 1 for at, _ in site.answers) <= 10 + len(MACHINES)
    assert sum(at >= 30 for at, _ in site.answers) >= 0.95 * 10 * 30


async def test_a_rate_that_was_learned_alone_is_lowered_when_a_machine_joins() -> None:
    clock, number = JumpingClock(), [1]
    site = TokenBucket(clock, 1000, 1000)
    policy = RatePolicy(first=10.0, fastest=10.0)
    pace = LearnedLimiter(LocalRateStore(clock), clock, policy=policy, machines=lambda: number[0])
    asking = [asyncio.ensure_future(ask_for_ever(site, pace, 0.05)) for _ in range(8)]
    await clock.run(20)
    number[0] = 4
    await clock.run(21)
    before = len(site.answers)
    await clock.run(41)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await pace.close()
    assert len(site.answers) - before == pytest.approx(50, abs=2)
