"""Transfer: jobs of another queue arrive unchanged, and then behave as if they had been submitted here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from longshore.conformance.harness import Harness, NewHarness
from longshore.conformance.scene import (
    ALL,
    KIND,
    LEASE,
    MINUTE,
    RUN,
    Scene,
    claim,
    claim_one,
    expire,
    failure,
    find,
    held,
    job,
    jobs,
    keys,
    listed,
    now,
    offered,
    seen,
    settle,
)
from longshore.conformance.suite.operating import one_of_each
from longshore.conformance.suite.submitting import CANNOT_BE_STORED
from longshore.conformance.suite.values import ODD, RESULTS
from longshore.conformance.suite.waiting import settled_in, waiting, woken
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import FINISHED, Attempt, CameFrom, Job, JobName, State
from longshore.lease import Lease, WorkerId
from longshore.outcome import Completed, Failed, Released, Snoozed
from longshore.queue import Count, Queue, Reaped, Selection, Submitted, each_job, each_page

PAST = 1_600_000_000.25
"""An instant years ago by any clock, which every medium stores exactly."""

replace = msgspec.structs.replace


def carried(key: str, *attempts: Attempt, **fields: Any) -> Carried:
    """Return a job of another queue, with its history."""
    theirs: dict[str, Any] = {
        "id": "theirs",
        "run": RUN,
        "kind": KIND,
        "key": key,
        "payload": {"n": key},
        "submitted_at": PAST,
    }
    return Carried(Job(**theirs | fields), attempts)


def attempt(epoch: int, message: str = "it broke there", worker: str = "wanda") -> Attempt:
    """Return an attempt that failed in another queue."""
    return Attempt(epoch=epoch, worker=worker, ended_at=PAST + epoch, failure=failure(message), seconds=epoch / 2)


FIRST, SECOND = attempt(1, "the first time"), attempt(3, "the second time")
ENDED: dict[str, Any] = {"settled_at": PAST + 100, "worker": "wanda", "seconds": 1.5}
EXAMPLES = {
    "fresh": carried("a"),
    "released": carried("a", epoch=5),
    "not first in line": carried("a", priority=7, partition="CA", host="x.test", max_attempts=9),
    "due long ago": carried("a", not_before=PAST + 1),
    "a follow-on": carried("a", parent=JobName("list", "page 1"), depth=3),
    "to be tried again": carried("a", FIRST, SECOND, epoch=4, attempts=2, failure=SECOND.failure),
    "claimed": carried("a", FIRST, state=State.CLAIMED, epoch=2, attempts=1, worker="wanda", failure=FIRST.failure),
    "completed": carried("a", state=State.COMPLETED, epoch=1, attempts=1, result={"n": [1, None]}, **ENDED),
    "completed in the end": carried(
        "a", FIRST, state=State.COMPLETED, epoch=3, attempts=2, result="well", handler_version="0123456789ab", **ENDED
    ),
    "failed": carried("a", FIRST, SECOND, state=State.FAILED, epoch=3, attempts=2, failure=SECOND.failure, **ENDED),
    "failed, its attempts forgotten": carried(
        "a", state=State.FAILED, epoch=3, attempts=2, failure=SECOND.failure, **ENDED
    ),
    "cancelled": carried("a", state=State.CANCELLED, settled_at=PAST + 100),
    "cancelled while a worker held it": carried(
        "a", FIRST, state=State.CANCELLED, epoch=2, attempts=1, failure=FIRST.failure, worker="wanda", settled_at=PAST
    ),
}
OPEN = {name: item for name, item in EXAMPLES.items() if item.job.state not in FINISHED}
CLOSED = {name: item for name, item in EXAMPLES.items() if item.job.state in FINISHED}


def arrived(theirs: Job, ours: Job) -> Job:
    """Return a job of another queue as this queue shows it: no worker holds it, and it knows its former queue."""
    came_from = (CameFrom(theirs.queue, theirs.id, theirs.epoch, theirs.epoch), *theirs.came_from)
    here = replace(theirs, id=ours.id, queue=ours.queue, came_from=came_from)
    if theirs.state is State.CLAIMED:
        return replace(here, state=State.PENDING, worker=None)
    return here


async def everything(queue: Queue) -> list[Carried]:
    """Return all jobs of a queue, ready for a transfer."""
    return [Carried(found, tuple(await queue.history(found.id))) async for found in each_job(queue, ALL)]


class TransferringTests(Scene):
    @pytest_asyncio.fixture
    async def taker(self, queue: Queue) -> TakesOver:
        """The transfer of the queue under test. A medium without the trait is not asked for it."""
        return offered(queue, TakesOver)

    @pytest_asyncio.fixture
    async def source(self, new_harness: NewHarness) -> AsyncIterator[Queue]:
        """A second queue of the same medium."""
        harness = new_harness()
        source = await harness.open()
        yield source
        await source.close()
        await harness.close()

    @pytest.mark.parametrize("theirs", EXAMPLES.values(), ids=EXAMPLES.keys())
    async def test_a_job_arrives_as_it_is(self, taker: TakesOver, other: Queue, theirs: Carried) -> None:
        assert await taker.take_over([theirs]) == Submitted(new=1, duplicates=0)
        (there,) = await other.jobs(ALL)
        assert there == arrived(theirs.job, there)
        assert await other.history(there.id) == list(theirs.history)

    async def test_a_whole_queue_arrives_as_it_is(self, queue: Queue, taker: TakesOver, source: Queue) -> None:
        await one_of_each(source)
        await source.submit([job("list", kind="list", partition="CA"), job("again", kind="list")])
        first, second = await claim(source, WorkerId.new("anna"), kinds=frozenset({"list"}))
        await settle(source, first, Completed("found one", (job("detail"),)), seconds=0.5)
        await settle(source, second, Failed(failure("no answer"), MINUTE), seconds=0.25)
        given = await everything(source)
        assert await taker.take_over(given) == Submitted(new=len(given), duplicates=0)
        for theirs, ours in zip(given, await everything(queue), strict=True):
            assert ours == Carried(arrived(theirs.job, ours.job), theirs.history)

    @pytest.mark.parametrize("theirs", OPEN.values(), ids=OPEN.keys())
    async def test_the_next_claim_raises_the_epoch_it_came_with(
        self, queue: Queue, taker: TakesOver, theirs: Carried
    ) -> None:
        await taker.take_over([theirs])
        lease = await claim_one(queue, WorkerId.new("anna"))
        came = theirs.job
        assert (lease.epoch, lease.job.attempts) == (came.epoch + 1, came.attempts)
        assert (lease.job.payload, lease.job.failure, lease.job.host) == (came.payload, came.failure, came.host)
        assert (lease.job.parent, lease.job.depth) == (came.parent, came.depth)
        assert (lease.job.submitted_at, lease.job.worker) == (PAST, "anna")
        await settle(queue, lease, Released())
        assert (await claim_one(queue)).epoch == came.epoch + 2

    async def test_a_lease_of_the_queue_it_came_from_counts_for_nothing_here(
        self, queue: Queue, taker: TakesOver
    ) -> None:
        theirs = EXAMPLES["claimed"].job
        await taker.take_over([EXAMPLES["claimed"]])
        stale = Lease(replace(theirs, id=(await find(queue, "a")).id), WorkerId.new("wanda"), PAST)
        before = await seen(queue)
        assert not await settle(queue, stale, Completed("there", tuple(jobs("x"))))
        assert await seen(queue) == before
        lease = await claim_one(queue)
        assert not await settle(queue, stale, Completed("there"))
        assert await settle(queue, lease, Completed("here"))

    async def test_a_job_that_was_claimed_there_is_held_by_no_worker_here(
        self, queue: Queue, taker: TakesOver, harness: Harness
    ) -> None:
        await taker.take_over([EXAMPLES["claimed"]])
        worker = WorkerId.new("wanda")
        assert await queue.renew(worker, LEASE) == []
        assert await expire(harness, queue) == Reaped()
        assert (await find(queue, "a")).attempts == 1
        lease = await claim_one(queue, worker)
        assert set(await queue.renew(worker, LEASE)) == held(lease)

    async def test_a_job_that_is_not_due_stays_delayed(self, queue: Queue, taker: TakesOver, harness: Harness) -> None:
        due = await now(queue) + 50
        await taker.take_over([carried("a", not_before=due), carried("b")])
        assert (await find(queue, "a")).not_before == pytest.approx(due, abs=0.001)
        assert keys(await claim(queue)) == ["b"]
        await harness.advance(60)
        assert keys(await claim(queue)) == ["a"]

    @pytest.mark.parametrize("theirs", CLOSED.values(), ids=CLOSED.keys())
    async def test_a_finished_job_stays_finished(
        self, queue: Queue, taker: TakesOver, harness: Harness, theirs: Carried
    ) -> None:
        await taker.take_over([theirs])
        await harness.advance(10_000)
        assert await queue.reap() == Reaped()
        assert await claim(queue) == []

    async def test_attempts_made_there_count_here(self, queue: Queue, taker: TakesOver) -> None:
        last = carried("a", FIRST, SECOND, epoch=4, attempts=2, max_attempts=3, failure=SECOND.failure)
        await taker.take_over([last])
        lease = await claim_one(queue, WorkerId.new("anna"))
        assert lease.job.attempt == 3
        await settle(queue, lease, Failed(failure("here")))
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.failure) == (State.FAILED, 3, failure("here"))
        history = await queue.history(there.id)
        assert history[:2] == [FIRST, SECOND]
        assert [(entry.epoch, entry.worker) for entry in history] == [(1, "wanda"), (3, "wanda"), (5, "anna")]

    async def test_age_is_the_order_given(self, queue: Queue, taker: TakesOver) -> None:
        await queue.submit(jobs("x"))
        await taker.take_over([carried(key, submitted_at=PAST - n) for n, key in enumerate("cab")])
        await queue.submit([job("y"), job("z", priority=-1)])
        assert await listed(queue) == ["x", "c", "a", "b", "y", "z"]
        assert keys(await claim(queue)) == ["z", "x", "c", "a", "b", "y"]

    async def test_priority_goes_before_age(self, queue: Queue, taker: TakesOver) -> None:
        await queue.submit([job("x"), job("y", priority=2)])
        await taker.take_over([carried("a", priority=1), carried("b", priority=-1), carried("c")])
        assert keys(await claim(queue)) == ["b", "x", "c", "a", "y"]

    @pytest.mark.parametrize("theirs", EXAMPLES.values(), ids=EXAMPLES.keys())
    async def test_a_job_that_is_known_here_is_not_changed(
        self, queue: Queue, taker: TakesOver, theirs: Carried
    ) -> None:
        await one_of_each(queue)
        before = await seen(queue)
        known = [replace(theirs, job=replace(theirs.job, key=state.value)) for state in State]
        assert await taker.take_over(known) == Submitted(new=0, duplicates=5)
        assert await seen(queue) == before
        assert await taker.take_over([*known, theirs]) == Submitted(new=1, duplicates=5)
        assert (await seen(queue))[0][:5] == before[0]

    async def test_the_same_again_is_a_duplicate(self, queue: Queue, taker: TakesOver) -> None:
        batch = [replace(item, job=replace(item.job, key=name)) for name, item in EXAMPLES.items()]
        assert await taker.take_over(batch) == Submitted(new=len(batch), duplicates=0)
        before = await seen(queue)
        assert await taker.take_over(batch[::-1]) == Submitted(new=0, duplicates=len(batch))
        assert await queue.submit([job(name) for name in EXAMPLES]) == Submitted(new=0, duplicates=len(batch))
        assert await seen(queue) == before

    async def test_of_the_same_job_twice_in_one_batch_the_first_counts_when_taken_over(
        self, queue: Queue, taker: TakesOver
    ) -> None:
        batch = [EXAMPLES["failed"], carried("b"), EXAMPLES["completed"], EXAMPLES["fresh"], carried("a", kind="image")]
        assert await taker.take_over(batch) == Submitted(new=3, duplicates=2)
        assert await listed(queue) == ["a", "b", "a"]
        there = await find(queue, "a")
        assert there.state is State.FAILED
        assert await queue.history(there.id) == [FIRST, SECOND]

    async def test_no_error_selects_a_job_that_was_taken_over_with_an_epoch_and_never_failed(
        self, queue: Queue, taker: TakesOver, harness: Harness
    ) -> None:
        await queue.submit(jobs("a", max_attempts=1))
        worker = WorkerId.new("w")
        await claim_one(queue, worker)
        assert await taker.take_over([carried("a"), carried("c", epoch=2)]) == Submitted(new=1, duplicates=1)
        failed = Selection(error="*")
        assert await listed(queue, failed) == []
        assert await expire(harness, queue) == Reaped(failed=1)
        await claim_one(queue, worker)
        pages = [keys(page) async for page in each_page(queue, failed, page=1)]
        assert pages == [["a"]]

    async def test_run_and_kind_tell_jobs_apart_that_are_taken_over(self, queue: Queue, taker: TakesOver) -> None:
        await queue.submit(jobs("a"))
        batch = [carried("a", run="next"), carried("a", kind="image"), carried("a", partition="TX")]
        assert await taker.take_over(batch) == Submitted(new=2, duplicates=1)

    async def test_openings_that_take_over_the_same_at_once_add_it_once(
        self, queue: Queue, taker: TakesOver, other: Queue
    ) -> None:
        batch = [carried(f"{n:03}", FIRST, epoch=1, attempts=1, failure=FIRST.failure) for n in range(100)]
        again = offered(other, TakesOver)
        answers = await asyncio.gather(taker.take_over(batch), again.take_over(batch[::-1]))
        assert (sum(answer.new for answer in answers), sum(answer.duplicates for answer in answers)) == (100, 100)
        assert [await queue.history(found.id) for found in await queue.jobs(ALL)] == [[FIRST]] * 100

    async def test_taking_over_nothing_does_nothing(self, queue: Queue, taker: TakesOver) -> None:
        assert await taker.take_over([]) == Submitted(new=0, duplicates=0)
        assert await queue.stats() == []

    @pytest.mark.parametrize("unfit", [{"payload": {"n": object()}}, {"state": State.COMPLETED, "result": object()}])
    async def test_what_cannot_be_stored_is_not_taken_over_in_part(
        self, queue: Queue, taker: TakesOver, unfit: dict[str, Any]
    ) -> None:
        ended = ENDED if "state" in unfit else {}
        with pytest.raises(CANNOT_BE_STORED):
            await taker.take_over([EXAMPLES["failed"], carried("b", **unfit | ended), carried("c")])
        assert await listed(queue) == []
        assert await taker.take_over([EXAMPLES["failed"], carried("b")]) == Submitted(new=2, duplicates=0)

    async def test_thousands_are_taken_over_at_once(self, queue: Queue, taker: TakesOver) -> None:
        kinds = [EXAMPLES["fresh"], EXAMPLES["claimed"], EXAMPLES["completed in the end"], EXAMPLES["failed"]]
        batch = [
            Carried(replace(item.job, key=f"{n:05}", partition=f"{n % 7}"), item.history)
            for n in range(3000)
            for item in [kinds[n % 4]]
        ]
        assert await taker.take_over(batch) == Submitted(new=3000, duplicates=0)
        assert await listed(queue) == [item.job.key for item in batch]
        assert keys(await claim(queue, limit=3000)) == [f"{n:05}" for n in range(3000) if n % 4 < 2]
        assert len(await queue.history((await find(queue, "02999")).id)) == 2

    async def test_statistics_count_jobs_taken_over_by_their_state(self, queue: Queue, taker: TakesOver) -> None:
        batch = [replace(item, job=replace(item.job, key=name, partition="TX")) for name, item in EXAMPLES.items()]
        later = await now(queue) + 1000
        await taker.take_over([*batch, carried("later", partition="TX", not_before=later), carried("a", kind="image")])
        assert [count for count in await queue.stats() if count.total] == [
            Count(run=RUN, kind="image", pending=1),
            Count(run=RUN, kind=KIND, partition="TX", pending=8, completed=2, failed=2, cancelled=2),
        ]

    @pytest.mark.parametrize("name", ["failed", "cancelled", "cancelled while a worker held it"])
    async def test_jobs_that_failed_or_were_cancelled_there_can_be_retried_here(
        self, queue: Queue, taker: TakesOver, name: str
    ) -> None:
        theirs = EXAMPLES[name]
        await taker.take_over([theirs])
        assert await queue.retry(ALL) == 1
        there = await find(queue, "a")
        assert (there.state, there.attempts, there.epoch) == (State.PENDING, 0, theirs.job.epoch)
        assert (there.settled_at, there.worker, there.seconds) == (None, None, None)
        assert await queue.history(there.id) == list(theirs.history)
        lease = await claim_one(queue)
        assert lease.epoch == theirs.job.epoch + 1
        assert await settle(queue, lease, Completed("at last"))

    @pytest.mark.parametrize("theirs", CLOSED.values(), ids=CLOSED.keys())
    async def test_finished_jobs_can_be_pruned_by_their_own_age(
        self, queue: Queue, taker: TakesOver, theirs: Carried
    ) -> None:
        await taker.take_over([theirs, carried("b")])
        there = await find(queue, "a")
        assert await queue.prune(Selection(older_than=timedelta(hours=1))) == 1
        assert await listed(queue) == ["b"]
        assert await queue.history(there.id) == []
        assert await queue.submit(jobs("a")) == Submitted(new=1, duplicates=0)

    @pytest.mark.parametrize("theirs", OPEN.values(), ids=OPEN.keys())
    async def test_unfinished_jobs_can_be_cancelled(self, queue: Queue, taker: TakesOver, theirs: Carried) -> None:
        await taker.take_over([theirs])
        assert await queue.prune(ALL) == 0
        assert await queue.cancel(ALL) == 1
        assert (await find(queue, "a")).state is State.CANCELLED

    async def test_jobs_taken_over_can_be_selected_like_any_other(self, queue: Queue, taker: TakesOver) -> None:
        await queue.submit([job("ours")])
        batch = [replace(item, job=replace(item.job, key=name)) for name, item in EXAMPLES.items()]
        await taker.take_over(batch)
        second = Selection(error="*second time")
        assert await listed(queue, second) == ["to be tried again", "failed", "failed, its attempts forgotten"]
        assert await listed(queue, Selection(states=frozenset({State.COMPLETED}))) == [
            "completed",
            "completed in the end",
        ]
        assert await listed(queue, Selection(older_than=timedelta(hours=1))) == list(EXAMPLES)

    async def test_follow_on_jobs_of_a_job_taken_over_go_back_to_it(self, queue: Queue, taker: TakesOver) -> None:
        await taker.take_over([EXAMPLES["a follow-on"]])
        await settle(queue, await claim_one(queue), Completed(None, (job("b", kind="detail"),)))
        there = await find(queue, "b", kind="detail")
        assert (there.parent, there.depth) == (JobName(KIND, "a"), 4)

    async def test_snoozing_and_expiry_work_on_jobs_taken_over(
        self, queue: Queue, taker: TakesOver, harness: Harness
    ) -> None:
        await taker.take_over([EXAMPLES["claimed"], carried("b")])
        first, second = await claim(queue, WorkerId.new("anna"))
        assert await settle(queue, second, Snoozed(MINUTE))
        assert await expire(harness, queue) == Reaped(returned=1)
        assert [entry.worker for entry in await queue.history(first.job.id)] == ["wanda", "anna"]
        assert {lease.job.key: lease.epoch for lease in await claim(queue)} == {"a": 4, "b": 2}

    async def test_a_job_taken_over_wakes_a_waiting_worker(
        self, queue: Queue, taker: TakesOver, other: Queue, harness: Harness
    ) -> None:
        task = waiting(other)
        await settled_in(task, queue)
        await taker.take_over([EXAMPLES["completed"], EXAMPLES["fresh"], carried("b")])
        assert await woken(harness, queue, task)

    async def test_any_text_and_any_result_survives_the_transfer(self, queue: Queue, taker: TakesOver) -> None:
        odd = [
            carried(
                text,
                Attempt(epoch=1, worker=text, ended_at=PAST, failure=failure(text, retryable=False)),
                **dict.fromkeys(("run", "kind", "partition", "host", "worker"), text),
                payload={text: text},
                parent=JobName(text, text),
                depth=1,
                state=State.FAILED,
                settled_at=PAST,
                epoch=1,
                attempts=1,
                failure=failure(text, retryable=False),
            )
            for text in ODD.values()
        ]
        results = [
            carried(f"result {n}", state=State.COMPLETED, epoch=1, attempts=1, result=result, **ENDED)
            for n, result in enumerate(RESULTS)
        ]
        await taker.take_over(odd + results)
        for theirs, ours in zip(odd + results, await everything(queue), strict=True):
            assert ours == Carried(arrived(theirs.job, ours.job), theirs.history)
            assert type(ours.job.result) is type(theirs.job.result)
