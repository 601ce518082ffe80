"""Payloads by name: the payload that was accepted first, in whatever state its job is, and None for an unknown name."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from longshore.conformance.scene import ALL, KIND, RUN, Scene, claim, claim_one, job, offered, settle
from longshore.conformance.suite.operating import one_of_each
from longshore.conformance.suite.values import ODD
from longshore.errors import UsageError
from longshore.extensions.payloads import PayloadLookup
from longshore.job import JobName, new_job
from longshore.outcome import Completed
from longshore.queue import Queue


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
