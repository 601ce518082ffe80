"""Workers that share partitions out among them, in this process on a queue in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import Any

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import MembershipInfo, WorkerInfo
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.fleet.partitions.us_states import US_STATES
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.worker import RunFinished, WorkerReport

TEN = range(10)


def fleet(
    run_worker: Any, queue: MemoryQueue, handler: Any, mode: PartitionMode, **changes: Any
) -> asyncio.Future[list[WorkerReport]]:
    workers = [
        run_worker(
            queue,
            handler,
            worker=WorkerId.new(f"w{number}"),
            concurrency=1,
            run="r",
            stop=(RunFinished("r"),),
            scope=Partitioning(mode=mode, number=number, fleet_size=10),
            **changes,
        )
        for number in TEN
    ]
    return asyncio.gather(*workers)


async def workers_by_partition(queue: MemoryQueue) -> dict[str, set[str | None]]:
    found: defaultdict[str, set[str | None]] = defaultdict(set)
    for job in await queue.jobs(Selection()):
        assert job.state is State.COMPLETED
        found[job.partition].add(job.worker)
    return found


async def test_ten_workers_help_with_one_full_partition(memory: MemoryQueue, run_worker: Any) -> None:
    together = asyncio.Barrier(10)

    @handler("page")
    async def page(job: Any) -> None:
        await together.wait()  # only if all ten work at once does any of them get on

    await memory.submit([new_job("page", {"n": n}, run="r", partition="CA") for n in TEN])
    reports = await fleet(run_worker, memory, page, PartitionMode.HELP, partitions=frozenset(US_STATES))
    assert [report.completed for report in reports] == [1] * 10
    assert await memory.present_workers() == []


async def test_strict_one_worker_alone_touches_a_partition(memory: MemoryQueue, run_worker: Any) -> None:
    @handler("page")
    async def page(job: Any) -> None:
        await asyncio.sleep(0)

    for state in US_STATES:
        await memory.submit([new_job("page", {"n": n, "state": state}, run="r", partition=state) for n in range(3)])
    await fleet(run_worker, memory, page, PartitionMode.STRICT)
    touched = await workers_by_partition(memory)
    assert touched.keys() == US_STATES.keys()
    assert {len(workers) for workers in touched.values()} == {1}
    assert len(set.union(*touched.values())) == 10


async def test_strict_a_worker_that_waits_begins_when_it_inherits_a_partition(
    run_worker: Any, clock: ManualClock, advance: Any
) -> None:
    queue = MemoryQueue(clock)

    @handler("page")
    async def page(job: Any) -> None:
        return None

    lease = timedelta(seconds=30)
    gone = WorkerInfo(membership=MembershipInfo(run="r", number=0, partitions=("CA",)))
    await queue.submit([new_job("page", {}, run="r", partition="CA")])
    await queue.register(WorkerId.new("gone"), lease, gone)
    worker = run_worker(
        queue,
        page,
        clock=clock,
        run="r",
        lease=lease,
        partitions=frozenset({"CA"}),
        scope=Partitioning(mode=PartitionMode.STRICT),
        stop=(RunFinished("r"),),
    )
    report = await advance(asyncio.create_task(worker), clock)
    assert report.completed == 1
    # When the lease of the one before was over, and a heartbeat later at most.
    [job] = await queue.jobs(Selection())
    assert job.settled_at is not None
    assert 30.0 <= job.settled_at - job.submitted_at <= 40.0 + 1.0


async def test_a_worker_whose_queue_is_gone_at_the_end_still_ends(memory: MemoryQueue, run_worker: Any) -> None:
    @handler("page")
    async def page(job: Any) -> None:
        return None

    async def gone(worker: WorkerId) -> None:
        raise QueueUnavailableError("gone")

    memory.deregister = gone  # type: ignore[method-assign]
    await memory.submit([new_job("page", {}, run="r")])
    report = await run_worker(memory, page, run="r", scope=Partitioning())
    assert (report.completed, report.exit_code) == (1, 0)
