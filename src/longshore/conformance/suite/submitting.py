"""Submitting: each submitted job is stored exactly once, and found by its name with the payload accepted first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from longshore.conformance.scene import (
    ALL,
    KIND,
    RUN,
    Scene,
    claim,
    claim_one,
    failure,
    find,
    job,
    jobs,
    listed,
    offered,
    seen,
    settle,
)
from longshore.conformance.suite.operating import one_of_each
from longshore.conformance.suite.values import ODD
from longshore.errors import UsageError
from longshore.extensions.payloads import PayloadLookup
from longshore.job import JobName, State, new_job
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement
from longshore.queue import Queue, Selection, Submitted

CANNOT_BE_STORED = UsageError


class SubmittingTests(Scene):
    async def test_submitted_jobs_are_there(self, queue: Queue) -> None:
        given = job("a", payload={"url": "https://x.test/"}, priority=3, partition="CA", host="x.test", max_attempts=9)
        assert await queue.submit([given]) == Submitted(new=1, duplicates=0)
        there = await find(queue, "a")
        assert there.state is State.PENDING
        assert (there.payload, there.priority, there.partition) == ({"url": "https://x.test/"}, 3, "CA")
        assert (there.host, there.max_attempts, there.not_before) == ("x.test", 9, None)
        assert (there.epoch, there.attempts, there.worker, there.result, there.failure) == (0, 0, None, None, None)
        assert there.settled_at is None

    async def test_the_same_job_submitted_again_is_a_duplicate(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        assert await queue.submit(jobs("b", "c", "a")) == Submitted(new=1, duplicates=2)
        assert await listed(queue) == ["a", "b", "c"]

    async def test_a_job_stays_known_to_an_opening_that_settled_it_with_a_follow_on_job(
        self, queue: Queue, other: Queue
    ) -> None:
        await queue.submit(jobs("a", "b", "c"))
        leases = await claim(other)
        # A page that links back to the start page: the follow-on job is the one being settled.
        outcomes: list[Outcome] = [
            Completed(None, tuple(jobs("a", "new"))),
            Completed(),
            Failed(failure(retryable=False)),
        ]
        settlements = [Settlement(lease, outcome) for lease, outcome in zip(leases, outcomes, strict=True)]
        assert await other.settle(settlements) == [True, True, True]
        assert await other.submit(jobs("a", "b", "c", "new")) == Submitted(new=0, duplicates=4)
        assert await queue.submit(jobs("a", "b", "c", "new")) == Submitted(new=0, duplicates=4)
        assert await listed(queue) == ["a", "b", "c", "new"]

    async def test_the_same_job_twice_in_one_batch_is_a_duplicate(self, queue: Queue) -> None:
        assert await queue.submit(jobs("a", "a", "b", "a")) == Submitted(new=2, duplicates=2)
        assert await listed(queue) == ["a", "b"]

    async def test_of_the_same_job_twice_in_one_batch_the_first_counts(self, queue: Queue) -> None:
        await queue.submit([job("a", payload={"n": 1}), job("a", payload={"n": 2})])
        assert (await find(queue, "a")).payload == {"n": 1}

    async def test_a_duplicate_does_not_change_the_job_that_is_there(self, queue: Queue) -> None:
        await queue.submit([job("a", priority=1, payload={"n": 1})])
        before = await seen(queue)
        await queue.submit([job("a", priority=0, payload={"n": 2}, partition="TX", max_attempts=1)])
        assert await seen(queue) == before

    async def test_a_duplicate_in_another_partition_is_still_a_duplicate(self, queue: Queue) -> None:
        await queue.submit([job("a", partition="CA")])
        assert await queue.submit([job("a", partition="TX")]) == Submitted(new=0, duplicates=1)

    async def test_the_same_key_of_another_kind_is_another_job(self, queue: Queue) -> None:
        assert await queue.submit([job("a"), job("a", kind="image")]) == Submitted(new=2, duplicates=0)

    async def test_the_same_key_in_another_run_is_another_job(self, queue: Queue) -> None:
        assert await queue.submit([job("a"), job("a", run="next")]) == Submitted(new=2, duplicates=0)

    @pytest.mark.parametrize("state", [State.CLAIMED, State.COMPLETED, State.FAILED, State.CANCELLED])
    async def test_a_job_that_is_no_longer_pending_still_counts_as_a_duplicate(
        self, queue: Queue, state: State
    ) -> None:
        await queue.submit([job("a", max_attempts=1)])
        if state is State.CANCELLED:
            await queue.cancel(ALL)
        else:
            lease = await claim_one(queue)
            if state is State.COMPLETED:
                await settle(queue, lease, Completed("done"))
            elif state is State.FAILED:
                await settle(queue, lease, Failed(failure()))
        before = await seen(queue)
        assert await queue.submit([job("a")]) == Submitted(new=0, duplicates=1)
        assert await seen(queue) == before

    async def test_a_released_job_still_counts_as_a_duplicate(self, queue: Queue) -> None:
        await queue.submit([job("a")])
        await settle(queue, await claim_one(queue), Released())
        assert await queue.submit([job("a")]) == Submitted(new=0, duplicates=1)

    async def test_an_empty_batch_does_nothing(self, queue: Queue) -> None:
        assert await queue.submit([]) == Submitted(new=0, duplicates=0)
        assert await queue.stats() == []

    async def test_another_opening_sees_submitted_jobs(self, queue: Queue, other: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        assert await listed(other) == ["a", "b"]
        assert await other.submit(jobs("b")) == Submitted(new=0, duplicates=1)

    async def test_openings_that_submit_the_same_at_once_add_it_once(self, queue: Queue, other: Queue) -> None:
        batch = jobs(*(f"{n:03}" for n in range(200)))
        answers = await asyncio.gather(queue.submit(batch), other.submit(batch[::-1]))
        assert sum(answer.new for answer in answers) == 200
        assert sum(answer.duplicates for answer in answers) == 200
        assert sorted(await listed(queue)) == [j.key for j in batch]

    async def test_a_batch_that_cannot_be_stored_leaves_nothing_of_itself(self, queue: Queue) -> None:
        with pytest.raises(CANNOT_BE_STORED):
            await queue.submit([job("a"), job("b", payload={"n": object()}), job("c")])
        assert await listed(queue) == []
        assert await queue.submit(jobs("a", "b", "c")) == Submitted(new=3, duplicates=0)

    async def test_thousands_in_one_batch_all_arrive_in_their_order(self, queue: Queue) -> None:
        batch = jobs(*(f"{n:05}" for n in range(3000)))
        assert await queue.submit(batch) == Submitted(new=3000, duplicates=0)
        assert await listed(queue, Selection(run=RUN)) == [j.key for j in batch]
        assert len(await claim(queue, limit=3000)) == 3000


def named(key: str, kind: str = KIND) -> JobName:
    return JobName(kind, key)


class PayloadTests(Scene):
    @pytest_asyncio.fixture
    async def lookup(self, queue: Queue) -> PayloadLookup:
        """The lookup of the queue under test. A medium without the trait is not asked for it."""
        return offered(queue, PayloadLookup)

    async def test_nothing_is_found_in_an_empty_queue(self, lookup: PayloadLookup) -> None:
        assert await lookup.payloads(RUN, [named("a"), named("b")]) == [None, None]
        assert await lookup.payloads(RUN, []) == []

    async def test_payloads_are_returned_in_the_order_of_the_names(self, lookup: PayloadLookup, other: Queue) -> None:
        await other.submit([job("a", payload={"n": 1}), job("b", payload={"n": {"deep": [None, "Ω"]}})])
        names = [named("b"), named("unknown"), named("a"), named("b")]
        b: dict[str, Any] = {"n": {"deep": [None, "Ω"]}}
        for reader in (lookup, offered(other, PayloadLookup)):
            assert await reader.payloads(RUN, names) == [b, None, {"n": 1}, b]

    async def test_the_payload_that_was_accepted_first_is_returned(self, lookup: PayloadLookup, queue: Queue) -> None:
        await queue.submit([job("a", payload={"n": 1}), job("a", payload={"n": 2})])
        await queue.submit([job("a", payload={"n": 3})])
        assert await lookup.payloads(RUN, [named("a")]) == [{"n": 1}]

    async def test_run_and_kind_are_part_of_the_name(self, lookup: PayloadLookup, queue: Queue) -> None:
        await queue.submit([job("a", payload={"n": 1}), job("a", run="another", payload={"n": 2})])
        await queue.submit([job("a", kind="image", payload={"n": 3})])
        assert await lookup.payloads(RUN, [named("a"), named("a", "image"), named("a", "none")]) == [
            {"n": 1},
            {"n": 3},
            None,
        ]
        assert await lookup.payloads("another", [named("a")]) == [{"n": 2}]

    async def test_jobs_in_every_state_are_found(self, lookup: PayloadLookup, queue: Queue) -> None:
        await one_of_each(queue)
        there = await queue.jobs(ALL)
        names = [JobName(each.kind, each.key) for each in there]
        assert len({each.state for each in there}) == 5
        assert await lookup.payloads(there[0].run, names) == [each.payload for each in there]

    async def test_ids_are_found_as_payloads_are(self, lookup: PayloadLookup, queue: Queue) -> None:
        await one_of_each(queue)
        there = await queue.jobs(ALL)
        names = [JobName(each.kind, each.key) for each in there]
        assert await lookup.job_ids(there[0].run, [*names, named("unknown")]) == [*(each.id for each in there), None]
        assert await lookup.job_ids("another", names) == [None] * len(names)
        assert await lookup.job_ids(RUN, []) == []
        with pytest.raises(UsageError):
            await lookup.job_ids(RUN, [named("half a \ud800")])

    async def test_follow_on_jobs_are_found_and_refused_ones_are_not(self, lookup: PayloadLookup, queue: Queue) -> None:
        await queue.submit([job("a")])
        lease = await claim_one(queue)
        found = (new_job(KIND, {"n": 7}, key="b"), new_job(KIND, {"n": 8}, key="a"))
        assert await settle(queue, lease, Completed(None, found))
        assert not await settle(queue, lease, Completed(None, (new_job(KIND, {"n": 9}, key="c"),)))
        assert (await lookup.payloads(RUN, [named("b"), named("c")])) == [{"n": 7}, None]
        assert (await lookup.payloads(RUN, [named("a")])) != [{"n": 8}]

    async def test_a_pruned_job_is_not_found_and_the_next_of_its_name_is(
        self, lookup: PayloadLookup, queue: Queue
    ) -> None:
        await queue.submit([job("a", payload={"n": 1})])
        [lease] = await claim(queue)
        await settle(queue, lease, Completed())
        await queue.prune(ALL)
        assert await lookup.payloads(RUN, [named("a")]) == [None]
        await queue.submit([job("a", payload={"n": 2})])
        assert await lookup.payloads(RUN, [named("a")]) == [{"n": 2}]

    @pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
    async def test_odd_names_are_found(self, lookup: PayloadLookup, queue: Queue, odd: str) -> None:
        await queue.submit([job(odd, run=odd, kind=odd, payload={"n": odd})])
        assert await lookup.payloads(odd, [named(odd, odd)]) == [{"n": odd}]

    async def test_names_that_cannot_be_stored_are_refused(self, lookup: PayloadLookup) -> None:
        with pytest.raises(UsageError):
            await lookup.payloads("half a \ud800", [named("a")])
        with pytest.raises(UsageError):
            await lookup.payloads(RUN, [named("half a \ud800")])
