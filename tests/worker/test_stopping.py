"""When and why a worker stops, and what it says while it waits (A4, A5, A12, D5)."""

from __future__ import annotations

import asyncio
import io
import re
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.extensions.presence import WorkerInfo
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.worker import MaxEmptyPolls, MaxIdle, MaxMemory, MaxWork, RunFinished, Snapshot, stop_condition
from longshore.worker.loop.stop_conditions import spans


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


async def test_max_work_counts_jobs_that_failed_for_good_and_no_attempt_that_is_repeated(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, said: io.StringIO
) -> None:
    @handler("bad", retries=1, backoff=0)
    async def bad(job: Any) -> None:
        raise ValueError("no")

    await memory.submit([*some_jobs("bad", 2), *some_jobs("echo", 10)])
    report = await run_worker(memory, bad, echo, concurrency=1, stop=(MaxWork(5),))
    assert (report.completed, report.failed, report.retried, report.share) == (3, 2, 2, 1.0)
    assert {"1 of 5", "2 of 5", "5 of 5"} <= set(re.findall(r'progress="(\d of 5)"', said.getvalue()))


async def test_no_share_of_the_target_is_reached_by_attempts_that_are_repeated(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any
) -> None:
    @handler("bad", retries=5, backoff=60)
    async def bad(job: Any) -> None:
        raise ValueError("no")

    await memory.submit(some_jobs("bad", 1))
    report = await run_worker(
        memory, bad, stop=(MaxWork(1), stop_condition(lambda seen: "seen" if seen.failed else None))
    )
    assert (report.completed, report.failed, report.retried, report.share) == (0, 0, 1, 0.0)


async def test_consecutive_empty_polls_stop_it(run_worker: Any, advance: Any, clock: Any, said: io.StringIO) -> None:
    queue = MemoryQueue(clock)
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(MaxEmptyPolls(5),)))
    report = await advance(task, clock)
    assert report.reason == "no work in 5 looks in a row"
    assert said.getvalue().count("No work available") == 4
    assert "No work available (poll 3 of 5, idle " in said.getvalue()


async def test_work_resets_the_count_of_empty_polls(run_worker: Any, advance: Any, clock: Any) -> None:
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
    for wait, expected in zip(waits, [0.4, 0.8, 1.6, 3.2, 4.0, 4.0, 4.0], strict=False):
        assert 0.75 * expected - 0.05 <= wait <= expected + 0.05


async def test_a_few_empty_polls_take_as_long_as_the_poll_interval_suggests(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    task = asyncio.create_task(run_worker(MemoryQueue(clock), echo, clock=clock, stop=(MaxEmptyPolls(3),)))
    await advance(task, clock, step=0.05)
    assert clock.monotonic() > 2  # about 1 s and 2 s between the three looks, of at most 10 s


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


async def test_a_job_now_and_then_keeps_it_from_counting_as_idle(run_worker: Any, advance: Any, clock: Any) -> None:
    queue = MemoryQueue(clock)
    due = [clock.now() + hour * 3600 for hour in range(1, 6)]
    await queue.submit([new_job("echo", {"n": n}, not_before=when) for n, when in enumerate(due)])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(MaxIdle(timedelta(hours=2)),)))
    report = await advance(task, clock, step=2.0)
    assert (report.completed, report.reason) == (5, "no work for 2.0 h")
    assert clock.monotonic() >= 7 * 3600


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


async def test_the_longer_it_waits_for_its_run_the_more_rarely_it_asks(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    asked = []

    class Counted(MemoryQueue):
        async def stats(self, run: str | None = None) -> Any:
            asked.append(clock.monotonic())
            return await super().stats(run)

    queue = Counted(clock)
    await queue.submit([new_job("echo", {}, not_before=clock.now() + 100)])
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock)), clock, step=0.25)
    assert report.completed == 1
    assert sum(moment < 5 for moment in asked) >= 8
    assert sum(50 <= moment < 100 for moment in asked) <= 40


async def test_jobs_of_an_unhandled_kind_keep_it_for_a_lease_length_and_no_longer(
    run_worker: Any, advance: Any, clock: Any
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {}), new_job("other", {})])
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, lease=timedelta(seconds=40)))
    report = await advance(task, clock)
    assert (report.completed, clock.monotonic() > 40) == (1, True)
    assert (
        report.reason == "every run is finished for this worker; 1 jobs wait for others (kinds, partitions or versions)"
    )


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


async def test_each_job_says_which_of_the_target_it_is(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, said: io.StringIO
) -> None:
    @handler("bad", retries=0)
    async def bad(job: Any) -> None:
        raise ValueError("no")

    await memory.submit([*some_jobs("echo", 3), *some_jobs("bad", 2)])
    await run_worker(memory, echo, bad, stop=(MaxWork(5),))
    found = re.findall(r'progress="(\d) of 5"', said.getvalue())
    assert sorted(found) == ["1", "2", "3", "4", "5"]


async def test_the_final_statistics_count_jobs_and_name_retries_apart(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, said: io.StringIO
) -> None:
    @handler("bad", retries=1, backoff=0)
    async def bad(job: Any) -> None:
        raise ValueError("no")

    await memory.submit(some_jobs("bad", 2))
    report = await run_worker(memory, bad)
    assert (report.failed, report.retried) == (2, 2)
    assert "Final statistics: 0 completed, 2 failed, 2 retried, runtime" in said.getvalue()
    assert report.per_hour == pytest.approx(2 / report.seconds * 3600)


async def test_now_and_then_it_says_how_far_it_is_and_what_remains(
    run_worker: Any, advance: Any, clock: Any, said: io.StringIO
) -> None:
    settled, go = asyncio.Event(), asyncio.Event()

    class Watched(MemoryQueue):
        async def settle(self, settlements: Any) -> list[bool]:
            accepted = await super().settle(settlements)
            settled.set()
            return accepted

    @handler("slow")
    async def slow(job: Any) -> None:
        if job.payload["n"]:
            await go.wait()

    queue = Watched(clock)
    await queue.submit([new_job("slow", {"n": n}) for n in range(3)])
    task = asyncio.create_task(run_worker(queue, slow, clock=clock, concurrency=1))
    await settled.wait()  # outcomes are gathered in real time, so the clock stands still for them
    while "Progress" not in said.getvalue():
        assert clock.monotonic() < 60, "it says nothing"
        clock.advance(0.5)
        for _ in range(20):
            await asyncio.sleep(0)
    assert clock.monotonic() >= 30
    assert re.search(r"Progress completed=1 failed=0 under_way=1 remaining=2 jobs_per_hour=1[012]\d ", said.getvalue())
    go.set()
    assert (await advance(task, clock)).completed == 3


def test_spans_are_said_as_people_say_them() -> None:
    assert spans(timedelta(minutes=6), timedelta(hours=2)) == "0.1 of 2.0 h"
    assert spans(timedelta(seconds=4), timedelta(seconds=60)) == "4 of 60 s"
    assert spans(timedelta(seconds=12)) == "12 s"


async def test_a_run_that_is_being_submitted_is_not_finished(
    run_worker: Any, advance: Any, clock: Any, said: io.StringIO
) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("echo", {"n": 1}, run="r")])
    submitter = WorkerId.new("submission")
    await queue.register(submitter, timedelta(hours=1), WorkerInfo(submitting="r"))
    task = asyncio.create_task(run_worker(queue, echo, clock=clock, run="r", stop=(RunFinished("r"),)))
    while "still being submitted" not in said.getvalue():
        await asyncio.sleep(0)
        clock.advance(0.5)
    await queue.submit([new_job("echo", {"n": 2}, run="r")])
    await queue.deregister(submitter)
    report = await advance(task, clock)
    assert (report.completed, report.reason) == (2, "run r is finished")
