"""A burst of quick jobs on real workers: the fleet grows, shrinks again, and nothing is lost on the way (D7)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from longshore.fleet.sizing import resizer
from longshore.fleet.sizing.autoscale import Machine, QueueLoad, Scaler, ScalingPolicy, SizeBounds
from longshore.fleet.sizing.resizer import Numbered, Resizer
from longshore.fleet.supervise.supervisor import Fleet, WorkerCommand
from longshore.job import NewJob
from longshore.media import open_queue
from longshore.queue import Queue, Selection, each_job, totals

HANDLER = """
import asyncio
from longshore import handler

@handler("page")
async def page(job, kit):
    await asyncio.sleep(0.01)
"""


@dataclass
class Burst:
    """A queue full of work and a fleet that begins with one worker."""

    queue: Queue
    folder: Path
    policy: ScalingPolicy
    sizes: list[int] = field(default_factory=list)
    at_rest: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.fleet = Fleet([self.command(0)], lambda _: None)
        self.roster = Numbered(self.fleet, self.command)
        # The hold is short, so that workers leave in the middle of the work too.
        scaler = Scaler(self.policy, hold=0.5)
        self.sizing = Resizer(self.roster, scaler, self.load, lambda _: None, machine=self.machine)

    def command(self, number: int) -> WorkerCommand:
        arguments = ("work", "pages.py", "--run", "burst", "--lifeline", "--concurrency", "2", "--poll-interval", "1")
        return WorkerCommand(
            name=f"worker {number}",
            arguments=(sys.executable, "-m", "longshore", *arguments),
            log=self.folder / f"worker_{number}.log",
            environment={**os.environ, "LONGSHORE_QUEUE": url(self.folder), "PYTHONUTF8": "1"},
        )

    async def load(self) -> QueueLoad:
        count = totals(await self.queue.stats("burst"))
        members = self.roster.members
        self.sizes.append(len(members.live))
        if not count.remaining and members.processes == 1:
            self.at_rest.set()
        return QueueLoad(count.pending, count.claimed)

    async def machine(self, _: Collection[int]) -> Machine:
        return Machine(available=2**40, total=2**40, processors=64, busy=0)  # what this one has to give is no matter


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'jobs.db'}"


@pytest.mark.ledger("D7")
async def test_a_burst_scales_a_fleet_up_and_back_to_its_minimum_and_nothing_is_lost(
    tmp_path: Path, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resizer, "LOOK_EVERY", 0.2)
    jobs, policy = (
        (20_000, ScalingPolicy(SizeBounds(1, 10), 1000)) if long else (3000, ScalingPolicy(SizeBounds(1, 4), 200))
    )
    await asyncio.to_thread((tmp_path / "pages.py").write_text, HANDLER)
    queue = await open_queue(url(tmp_path))
    await queue.submit([NewJob(kind="page", payload={}, key=str(n), run="burst") for n in range(jobs)])
    burst = Burst(queue, tmp_path, policy)
    running = asyncio.create_task(burst.fleet.run(burst.sizing.keep()))
    async with asyncio.timeout(300):
        rest = asyncio.ensure_future(burst.at_rest.wait())
        await asyncio.wait({rest, running}, return_when=asyncio.FIRST_COMPLETED)
        assert rest.done(), running.result()
        [pid] = burst.fleet.pids
        assert psutil.pid_exists(pid)
        burst.fleet.stop()
        endings = await running
    assert max(burst.sizes) == policy.bounds.highest
    assert burst.sizes[-1] == 1
    assert len(endings) == policy.bounds.highest
    assert all(ending.done and not ending.restarts for ending in endings), endings
    done = [job async for job in each_job(queue, Selection(run="burst"))]
    assert {job.state for job in done} == {"completed"}
    assert len({job.key for job in done}) == len(done) == jobs
    # Whoever left had finished or given back what it held: nothing came back by its lease, which counts an attempt.
    assert {job.attempts for job in done} == {1}
    await queue.close()
