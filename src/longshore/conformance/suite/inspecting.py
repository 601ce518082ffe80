"""Inspecting: pages of jobs, and statistics that always add up."""

from __future__ import annotations

from longshore.conformance.harness import Harness
from longshore.conformance.scene import (
    ALL,
    MINUTE,
    Scene,
    assert_adds_up,
    claim,
    claim_one,
    expire,
    failure,
    job,
    jobs,
    keys,
    listed,
    settle,
)
from longshore.job import State
from longshore.outcome import Completed, Failed, Outcome, Released, Snoozed
from longshore.queue import Count, Queue, Selection, each_job
from longshore.stored import BIGGEST, LATEST


class InspectingTests(Scene):
    async def test_jobs_are_listed_oldest_first_whatever_became_of_them(self, queue: Queue) -> None:
        await queue.submit([job("c", priority=9), job("a"), job("b", priority=-9)])
        await settle(queue, await claim_one(queue), Completed())
        await queue.submit(jobs("0"))
        assert keys(await queue.jobs(ALL)) == ["c", "a", "b", "0"]

    async def test_pages_follow_one_another_without_gap_or_overlap(self, queue: Queue) -> None:
        given = [f"{n:02}" for n in range(25)]
        await queue.submit(jobs(*given))
        first = await queue.jobs(ALL, limit=10)
        second = await queue.jobs(ALL, after=first[-1].id, limit=10)
        third = await queue.jobs(ALL, after=second[-1].id, limit=10)
        assert [len(page) for page in (first, second, third)] == [10, 10, 5]
        assert keys(first + second + third) == given
        assert await queue.jobs(ALL, after=third[-1].id) == []

    async def test_a_selection_is_paged_like_everything_else(self, queue: Queue) -> None:
        await queue.submit([job(f"{n:02}", partition="odd" if n % 2 else "even") for n in range(20)])
        odd = Selection(partitions=frozenset({"odd"}))
        paged = [found.key async for found in each_job(queue, odd, page=3)]
        assert paged == [f"{n:02}" for n in range(1, 20, 2)]

    async def test_pages_of_a_state_leave_nothing_out_wherever_its_jobs_lie(self, queue: Queue) -> None:
        """A medium may search each state in another place, and first in the most probable one."""
        await queue.submit(
            [
                job(f"{n:02}", run=f"{n // 20}", priority=n % 5, not_before=LATEST if n % 7 == 3 else None)
                for n in range(60)
            ]
        )
        for n, lease in enumerate(await claim(queue, limit=30)):
            if n % 6:
                await settle(queue, lease, Failed(failure(), max_attempts=1) if n % 6 == 1 else Completed(n))
        await queue.cancel(Selection(ids=frozenset({(await queue.jobs(ALL))[54].id})))
        everything = await queue.jobs(ALL)
        assert {found.state for found in everything} == set(State)
        for states in (*({state} for state in State), {State.PENDING, State.COMPLETED}, {State.CLAIMED, State.FAILED}):
            for run in (None, "2"):
                meant = Selection(run=run, states=frozenset(states))
                there = [found.key for found in everything if found.state in states and run in (None, found.run)]
                assert [found.key async for found in each_job(queue, meant, page=2)] == there
                assert keys(await queue.jobs(meant, limit=BIGGEST)) == there

    async def test_a_page_follows_even_if_the_job_it_follows_is_gone(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b", "c", "d"))
        await queue.cancel(ALL)
        first = await queue.jobs(ALL, limit=2)
        await queue.prune(Selection(ids=frozenset(j.id for j in first)))
        assert keys(await queue.jobs(ALL, after=first[-1].id, limit=2)) == ["c", "d"]

    async def test_a_listing_of_an_empty_queue_is_empty(self, queue: Queue) -> None:
        assert await queue.jobs(ALL) == []

    async def test_ids_are_never_shared(self, queue: Queue) -> None:
        await queue.submit([job("a", run=run, kind=kind) for run in ("one", "two") for kind in ("page", "image")])
        first = [j.id for j in await queue.jobs(ALL)]
        await queue.cancel(ALL)
        await queue.prune(ALL)
        await queue.submit(jobs("b", "c"))
        second = [j.id for j in await queue.jobs(ALL)]
        assert len(set(first + second)) == 6

    async def test_statistics_tell_runs_kinds_and_partitions_apart(self, queue: Queue) -> None:
        await queue.submit(
            [
                job("a", run="two"),
                job("b", run="one", partition="TX"),
                job("c", run="one", partition="CA"),
                job("d", run="one", partition="CA"),
                job("e", run="one", kind="image"),
            ]
        )
        await settle(queue, await claim_one(queue, partitions=frozenset({"CA"})), Completed())
        assert [count for count in await queue.stats() if count.total] == [
            Count(run="one", kind="image", pending=1),
            Count(run="one", kind="page", partition="CA", pending=1, completed=1),
            Count(run="one", kind="page", partition="TX", pending=1),
            Count(run="two", kind="page", pending=1),
        ]

    async def test_statistics_of_one_run_leave_out_the_others(self, queue: Queue) -> None:
        await queue.submit([job("a", run="one"), job("b", run="two")])
        assert await queue.stats("two") == [Count(run="two", kind="page", pending=1)]
        assert await queue.stats("no such run") == []

    async def test_a_duplicate_is_not_counted_as_a_job(self, queue: Queue) -> None:
        await queue.submit([*jobs("a", "a"), job("a", partition="elsewhere")])
        assert [count for count in await queue.stats() if count.total] == [Count(run="run", kind="page", pending=1)]

    async def test_statistics_add_up_after_every_kind_of_operation(self, queue: Queue, harness: Harness) -> None:
        await queue.submit([job(f"{n}", partition=f"{n % 3}", kind=f"k{n % 2}", max_attempts=2) for n in range(30)])
        await assert_adds_up(queue)
        leases = await claim(queue, limit=20)
        await assert_adds_up(queue)
        outcomes: tuple[Outcome, ...] = (
            Completed("well", tuple(jobs("f1", "f2", "0", kind="k0"))),
            Failed(failure()),
            Failed(failure(retryable=False)),
            Snoozed(MINUTE),
            Released(),
        )
        for lease, outcome in zip(leases, outcomes, strict=False):
            await settle(queue, lease, outcome)
            await assert_adds_up(queue)
        await expire(harness, queue)
        await assert_adds_up(queue)
        await claim(queue, limit=30)
        await expire(harness, queue)
        await assert_adds_up(queue)
        assert await queue.cancel(Selection(partitions=frozenset({"0"}))) > 0
        await assert_adds_up(queue)
        assert await queue.retry(Selection(kinds=frozenset({"k0"}))) > 0
        await assert_adds_up(queue)
        assert await queue.prune(Selection(kinds=frozenset({"k1"}))) > 0
        await assert_adds_up(queue)
        assert not await settle(queue, leases[-1], Completed("late", tuple(jobs("f3"))))
        await assert_adds_up(queue)
        assert "f3" not in await listed(queue)
