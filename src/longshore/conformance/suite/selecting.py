"""Selections: which jobs they select."""

from __future__ import annotations

from datetime import timedelta

import pytest

from longshore.conformance.harness import Harness
from longshore.conformance.scene import RUN, Scene, claim, claim_one, find, job, jobs, listed, settle
from longshore.conformance.suite.operating import one_of_each
from longshore.errors import Failure
from longshore.job import State
from longshore.outcome import Completed, Failed, Released, Snoozed
from longshore.queue import Queue, Selection


async def fill(queue: Queue, harness: Harness) -> None:
    """Submit jobs that differ in every field that a selection can filter."""
    await queue.submit([job("old", run="one")])
    await harness.advance(100)
    await queue.submit(
        [
            job("a", run="one", partition="CA"),
            job("b", run="two", partition="TX"),
            job("c", run="two", kind="image", partition="TX"),
            job("d", run="two", partition="NY"),
        ]
    )
    timeout = Failure("timeout", "took longer than 30 s", "longshore.errors.TimedOutError")
    odd = Failure("unknown", "100% of [it]_gone", "shop.PriceMissingError", retryable=False)
    for key, run, outcome in (("a", "one", timeout), ("b", "two", odd)):
        (lease,) = await claim(queue, run=run, limit=1, partitions=frozenset({"CA", "TX"}), kinds=frozenset({"page"}))
        assert lease.job.key == key
        await settle(queue, lease, Failed(outcome, max_attempts=1))


ERRORS = [
    ("timeout", ["a"]),
    ("TimedOut*", ["a"]),
    ("timedouterror", ["a"]),
    ("longshore.errors.*", ["a"]),
    ("*longer than*", ["a"]),
    ("longer than", []),
    ("shop.*", ["b"]),
    ("Price?issing*", ["b"]),
    ("[pq]rice*", ["b"]),
    ("*missing*", ["b"]),
    ("*%*", ["b"]),
    ("*[[]it]_gone", ["b"]),
    ("*T_ken*", []),
    ("%", []),
    ("*", ["a", "b"]),
    ("", []),
]


class SelectingTests(Scene):
    async def test_no_condition_selects_everything(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        assert await listed(queue) == ["old", "a", "b", "c", "d"]

    async def test_selecting_by_run(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        assert await listed(queue, Selection(run="two")) == ["b", "c", "d"]

    async def test_selecting_by_kinds(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        assert await listed(queue, Selection(kinds=frozenset({"image", "feed"}))) == ["c"]
        assert await listed(queue, Selection(kinds=frozenset())) == []

    async def test_selecting_by_partitions(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        assert await listed(queue, Selection(partitions=frozenset({"CA", "TX"}))) == ["a", "b", "c"]
        assert await listed(queue, Selection(partitions=frozenset({""}))) == ["old"]

    async def test_selecting_by_states(self, queue: Queue) -> None:
        await one_of_each(queue)
        for state in State:
            assert await listed(queue, Selection(states=frozenset({state}))) == [state.value]
        two = frozenset({State.FAILED, State.PENDING})
        assert await listed(queue, Selection(states=two)) == ["failed", "pending"]
        assert await listed(queue, Selection(states=frozenset())) == []

    async def test_selecting_by_ids(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        ids = frozenset({(await find(queue, key, run="two")).id for key in ("d", "b")})
        assert await listed(queue, Selection(ids=ids)) == ["b", "d"]
        assert await listed(queue, Selection(ids=ids | {"no such id"})) == ["b", "d"]

    @pytest.mark.parametrize(("pattern", "expected"), ERRORS, ids=[pattern or "empty" for pattern, _ in ERRORS])
    async def test_selecting_by_error(self, queue: Queue, harness: Harness, pattern: str, expected: list[str]) -> None:
        await fill(queue, harness)
        assert await listed(queue, Selection(error=pattern)) == expected

    async def test_no_error_selects_a_job_that_never_failed(self, queue: Queue) -> None:
        await queue.submit(jobs("released", "snoozed", "cancelled", "claimed", "completed"))
        by_key = {lease.job.key: lease for lease in await claim(queue)}
        await settle(queue, by_key["released"], Released())
        await settle(queue, by_key["snoozed"], Snoozed(timedelta(hours=1)))
        await settle(queue, by_key["completed"], Completed())
        await queue.cancel(Selection(ids=frozenset({by_key["cancelled"].job.id})))
        for chosen in (
            Selection(error="*"),
            Selection(error="*", run=RUN),
            Selection(error="*", states=frozenset(State)),
        ):
            assert await listed(queue, chosen) == []
            assert await queue.cancel(chosen) == 0

    async def test_selecting_by_age(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        await harness.advance(20)
        assert await listed(queue, Selection(older_than=timedelta(seconds=60))) == ["old"]
        assert await listed(queue, Selection(older_than=timedelta(seconds=10))) == ["old", "a", "b", "c", "d"]
        assert await listed(queue, Selection(older_than=timedelta(seconds=1000))) == []

    async def test_a_finished_job_is_as_old_as_its_settlement(self, queue: Queue, harness: Harness) -> None:
        await queue.submit(jobs("finished", "waiting"))
        lease = await claim_one(queue)
        await harness.advance(100)
        await settle(queue, lease, Completed())
        await harness.advance(20)
        assert await listed(queue, Selection(older_than=timedelta(seconds=60))) == ["waiting"]
        assert await queue.prune(Selection(older_than=timedelta(seconds=60))) == 0
        assert await queue.prune(Selection(older_than=timedelta(seconds=10))) == 1

    async def test_all_conditions_must_hold(self, queue: Queue, harness: Harness) -> None:
        await fill(queue, harness)
        narrow = Selection(
            run="two",
            kinds=frozenset({"page", "image"}),
            partitions=frozenset({"TX"}),
            states=frozenset({State.FAILED, State.COMPLETED}),
            error="*price*",
            older_than=timedelta(0),
        )
        assert await listed(queue, narrow) == ["b"]
        assert await queue.retry(narrow) == 1
        assert await listed(queue, narrow) == []
