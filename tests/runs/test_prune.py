"""What was noted of a run goes with its last job."""

from __future__ import annotations

from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.runs.control.growth_limits import GrowthLimits, limits_of, set_limits
from longshore.runs.control.pause import pause, paused
from longshore.runs.control.prune import prune
from longshore.wrappers.growth_limits import LeftOut, add_left_out, left_out_of


async def finished(queue: MemoryQueue, run: str, jobs: int) -> None:
    await queue.submit([new_job("page", {"n": n}, run=run) for n in range(jobs)])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=jobs, run=run))
    await queue.settle([Settlement(lease, Completed(None), 0.1) for lease in leases])


async def test_a_run_that_is_pruned_whole_takes_its_notes_with_it() -> None:
    queue = MemoryQueue()
    for run in ("gone", "stays", "unfinished"):
        await finished(queue, run, 2)
        await pause(queue, run)
        await set_limits(queue, run, GrowthLimits(max_depth=3))
        await add_left_out(queue, run, LeftOut(too_deep=2))
    await queue.submit([new_job("page", {"n": 9}, run="unfinished")])
    await pause(queue, "not begun")
    assert await prune(queue, Selection(run="gone")) == 2
    assert await prune(queue, Selection(run="unfinished")) == 2
    assert (await paused(queue)).keys() == {"stays", "unfinished", "not begun"}
    assert not await limits_of(queue, "gone")
    assert not await left_out_of(queue, "gone")
    assert (await limits_of(queue, "unfinished")).max_depth == 3
    assert await prune(queue, Selection()) == 2
    assert (await paused(queue)).keys() == {"unfinished", "not begun"}
