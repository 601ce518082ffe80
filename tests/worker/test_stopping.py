"""When and why a worker stops, and what it says while it waits (A4, A5, A12, D5)."""

from __future__ import annotations

import asyncio
import io
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.worker import MaxEmptyPolls, MaxIdle, MaxMemory, MaxWork, RunFinished, Snapshot, stop_condition
from longshore.worker.stop import spans


@handler("echo")
async def echo(job: Any, kit: Any) -> Any:
    return job.payload


@pytest.fixture
def said() -> io.StringIO:
    stream = io.StringIO()
    configure(format="text", stream=stream)
    return stream


@pytest.mark.parametrize("concurrency", [1, 7, 64])
async def test_max_work_is_exact(memory: MemoryQueue, run_worker: Any, some_jobs: Any, concurrency: int) -> None:
    await memory.submit(some_jobs("echo", 200))
    report = await run_worker(memory, echo, concurrency=concurrency, batch_size=30, stop=(MaxWork(50),))
    states = [job.state for job in await memory.jobs(Selection())]
    assert states.count(State.COMPLETED) == 50
    assert states.count(State.PENDING) == 150
    assert (report.completed, report.claimed, report.released) == (50, 50, 0)
    assert report.reason == "reached the limit of 50 jobs"
    assert report.share == 1.0


async def test_max_work_counts_failures_too(memory: MemoryQueue, run_worker: Any, some_jobs: Any) -> None:
    @handler("bad", retries=5, backoff=60)
    async def bad(job: Any) -> None:
        raise ValueError("no")

    await memory.submit([*some_jobs("echo", 3), *some_jobs("bad", 10)])
    report = await run_worker(memory, bad, echo, stop=(MaxWork(5),))
    assert (report.completed, report.failed) == (3, 2)


async def test_consecutive_empty_polls_stop_it(run_worker: Any, advance: Any, clock: Any, said: io.StringIO) -> None:
    queue = MemoryQueue(clock)
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(MaxEmptyPolls(5),)))
    report = await advance(task, clock)
    assert report.reason == "no work in 5 looks in a row"
    assert said.getvalue().count("No work available") == 4
    assert "No work available (poll 3 of 5, idle " in said.getvalue()


async def test_work_starts_the_count_of_empty_polls_anew(run_worker: Any, advance: Any, clock: Any) -> None:
    queue = MemoryQueue(clock)
    soon = clock.now() + 2
    await queue.submit([new_job("echo", {}, not_before=soon)])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(MaxEmptyPolls(5),)))
    report = await advance(task, clock, step=0.1)
    assert (report.completed, report.reason) == (1, "no work in 5 looks in a row")


async def test_waits_grow_up_to_the_poll_interval(run_worker: Any, advance: Any, clock: Any, said: io.StringIO) -> None:
    queue = MemoryQueue(clock)
    limit = (MaxEmptyPolls(12),)
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=limit, poll_interval=timedelta(seconds=4)))
    await advance(task, clock, step=0.05)
    waits = [
        float(line.split("next look in ")[1].split(" s")[0]) for line in said.getvalue().splitlines() if "next" in line
    ]
    assert waits[0] < 0.3
    assert waits[0] < waits[2] < waits[4]
    assert all(3.0 <= wait <= 4.0 for wait in waits[5:])


async def test_idle_time_stops_it_on_time_and_says_how_much_is_left(
    run_worker: Any, advance: Any, clock: Any, said: io.StringIO
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {})])
    begun = clock.monotonic()
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(MaxIdle(timedelta(hours=2)),)))
    report = await advance(task, clock, step=1.0)
    assert (report.completed, report.reason) == (1, "no work for 2.0 h")
    assert clock.monotonic() - begun < 7210
    assert "of 2.0 h); next look in" in said.getvalue()
    assert "idle 1.5 of 2.0 h" in said.getvalue()


async def test_it_ends_by_itself_when_its_run_is_done_and_not_while_others_hold_jobs_of_it(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {"number": n}, run="mine") for n in range(3)])
    await queue.submit([new_job("echo", {}, run="another")])
    other = Want(worker=WorkerId.new("other"), lease=timedelta(seconds=30), run="mine")
    await queue.claim(other)  # and never settles: its job comes back when the lease expires
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, run="mine", stop=(RunFinished("mine"),)))
    report = await advance(task, clock)
    assert (report.completed, report.reason) == (3, "run mine is finished")
    assert clock.monotonic() > 30
    assert [job.state for job in await queue.jobs(Selection(run="another"))] == [State.PENDING]


async def test_jobs_of_a_kind_nobody_works_on_keep_it_for_a_lease_length_and_no_longer(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {}), new_job("other", {})])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, lease=timedelta(seconds=40)))
    report = await advance(task, clock)
    assert (report.completed, clock.monotonic() > 40) == (1, True)
    assert report.reason == "every run is finished for this worker; 1 jobs wait for others (kinds or partitions)"


async def test_jobs_of_other_partitions_do_not_keep_it(run_worker: Any, advance: Any, clock: Any) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {"n": n}, partition=name) for n, name in enumerate(("CA", "TX"))])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, partitions=frozenset({"CA"})))
    report = await advance(task, clock)
    assert (report.completed, clock.monotonic() < 40) == (1, True)


async def test_it_waits_for_the_follow_on_jobs_of_kinds_that_others_work_on(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("list", {})])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, lease=timedelta(seconds=40)))
    while clock.monotonic() < 30:
        await asyncio.sleep(0)
        clock.advance(0.5)
    assert not task.done()
    (lease,) = await queue.claim(Want(worker=WorkerId.new("lister"), kinds=frozenset({"list"})))
    await queue.settle([Settlement(lease, Completed(jobs=(new_job("echo", {}),)))])
    report = await advance(task, clock)
    assert (report.completed, report.reason) == (1, "every run is finished")


async def test_a_condition_of_the_users_own_in_the_handler_file_stops_it(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, tmp_path: Path
) -> None:
    file = tmp_path / "with_condition.py"
    file.write_text(
        textwrap.dedent(
            """
            from longshore.handlers.handler import handler
            from longshore.worker import stop_condition

            @handler("echo")
            async def echo(job):
                return job.payload

            @stop_condition
            def seen_enough(snapshot):
                if snapshot.completed >= 4:
                    return f"seen {snapshot.completed}, which is enough"
            """
        )
    )
    await memory.submit(some_jobs("echo", 4))
    report = await run_worker(memory, handler_file=file, stop=())
    assert report.reason == "seen 4, which is enough"
    assert report.exit_code == 0


async def test_a_condition_that_breaks_stops_the_worker_and_is_the_reason(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any
) -> None:
    @stop_condition
    def broken(snapshot: Snapshot) -> str | None:
        raise KeyError("oops")

    await memory.submit(some_jobs("echo", 4))
    report = await run_worker(memory, echo, stop=(broken,))
    assert (report.exit_code, report.reason) == (1, "KeyError: 'oops'")


def test_memory_above_the_limit_is_a_reason() -> None:
    assert MaxMemory(0.0).check(Snapshot()) is not None
    assert MaxMemory(100.0).check(Snapshot()) is None


def test_a_condition_that_only_says_true_is_named() -> None:
    @stop_condition
    def done(snapshot: Snapshot) -> Any:
        return True

    assert done.check(Snapshot()) == "done says so"


async def test_the_phrases_people_search_for_are_there(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, said: io.StringIO
) -> None:
    """A12"""
    await memory.submit(some_jobs("echo", 2))
    await run_worker(memory, echo, concurrency=1, stop=(MaxWork(2),))
    text = said.getvalue()
    order = [
        "Worker tester initialized",
        "Looking for work",
        "Claimed work",
        "Completed work",
        "STOPPING: reached the limit of 2 jobs",
        "Final statistics: 2 completed, 0 failed, runtime 0:00:0",
    ]
    places = [text.index(phrase) for phrase in order]
    assert places == sorted(places)
    assert "jobs/hour, 100% of the target of 2" in text


def test_spans_are_said_as_people_say_them() -> None:
    assert spans(timedelta(minutes=6), timedelta(hours=2)) == "0.1 of 2.0 h"
    assert spans(timedelta(seconds=4), timedelta(seconds=60)) == "4 of 60 s"
    assert spans(timedelta(seconds=12)) == "12 s"
