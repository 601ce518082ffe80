"""Inspecting: pages of jobs, statistics that always add up, and the names of queues, jobs and attempts."""

from __future__ import annotations

import msgspec

from longshore.conformance.harness import Harness, NewHarness
from longshore.conformance.scene import (
    ALL,
    MINUTE,
    Scene,
    assert_adds_up,
    claim,
    claim_one,
    expire,
    failure,
    find,
    job,
    jobs,
    keys,
    listed,
    offered,
    settle,
)
from longshore.extensions.transfer import MOST_QUEUES, Carried, TakesOver, passed_on
from longshore.job import CameFrom, State
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
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

    async def test_a_queue_has_one_uuid_for_all_its_openings(self, harness: Harness, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        (lease,) = await claim(queue, limit=1)
        later = await harness.open()
        shown = {found.queue async for found in each_job(later, ALL)}
        await later.close()
        assert shown == {lease.job.queue}
        assert len(lease.job.queue) == 32

    async def test_two_queues_have_different_uuids(self, queue: Queue, new_harness: NewHarness) -> None:
        harness = new_harness()
        second = await harness.open()
        for each in (queue, second):
            await each.submit(jobs("a"))
        assert (await find(queue, "a")).queue != (await find(second, "a")).queue
        await second.close()
        await harness.close()

    async def test_a_job_that_is_submitted_again_has_another_id_and_another_life(
        self, harness: Harness, queue: Queue
    ) -> None:
        lives, ids = [], []
        for _ in range(2):
            await queue.submit(jobs("a"))
            lease = await claim_one(queue)
            assert (await find(queue, "a")).life == lease.job.life
            lives.append(lease.job.life)
            ids.append(lease.job.id)
            await settle(queue, lease, Completed())
            await queue.prune(ALL)
        # Also for one who opens the queue when it is empty.
        later = await harness.open()
        await later.submit(jobs("a"))
        again = await find(later, "a")
        await later.close()
        assert len({*lives, again.life}) == len({*ids, again.id}) == 3

    async def test_a_life_goes_with_the_job_through_every_queue(self, queue: Queue, new_harness: NewHarness) -> None:
        harness = new_harness()
        second = await harness.open()
        await queue.submit(jobs("a", "b"))
        await offered(second, TakesOver).take_over([Carried(found) for found in await queue.jobs(ALL)])
        born, there = await find(queue, "a"), await find(second, "a")
        lease = await claim_one(second)
        assert there.life == lease.job.life == born.life
        assert there.came_from == (CameFrom(born.queue, born.id, 0, 0),)
        assert (lease.job.queue, lease.job.came_from) == (there.queue, there.came_from)
        assert (await find(second, "b")).life != born.life
        await second.close()
        await harness.close()

    async def test_an_attempt_is_known_by_the_queue_it_was_made_in(self, queue: Queue, new_harness: NewHarness) -> None:
        harness = new_harness()
        second = await harness.open()
        await queue.submit(jobs("a", "b"))
        first = await claim_one(queue)
        await settle(queue, first, Completed())
        await offered(second, TakesOver).take_over([Carried(found) for found in await queue.jobs(ALL)])
        assert (first.job.queue, first.job.id, 1) in (await find(second, "a")).completed_by
        await settle(second, await claim_one(second), Completed())
        there, here = await find(second, "b"), await find(queue, "b")
        assert there.completed_by == ((there.queue, there.id, 1),), "the other queue did not complete it"
        assert here.completed_by == ((here.queue, here.id, 0),)
        await second.close()
        await harness.close()

    async def test_a_settlement_may_say_in_which_queue_its_attempt_was_made(self, queue: Queue) -> None:
        await queue.submit(jobs("a", "b"))
        elsewhere = CameFrom("0" * 32, "7", 5, 1)
        for lease in await claim(queue):
            came_from = (elsewhere,) if lease.job.key == "a" else ()
            assert await queue.settle([Settlement(lease, Completed(), came_from=came_from)]) == [True]
        told, plain = await find(queue, "a"), await find(queue, "b")
        assert told.completed_by == ((told.queue, told.id, 1), ("0" * 32, "7", 5))
        assert plain.came_from == ()

    async def test_a_job_remembers_a_bounded_number_of_queues(self, queue: Queue) -> None:
        await queue.submit(jobs("a"))
        found = await find(queue, "a")
        for number in range(2 * MOST_QUEUES):
            found = msgspec.structs.replace(found, came_from=passed_on(found, 0), queue=f"{number:032}")
        await queue.cancel(ALL)
        await queue.prune(ALL)
        await offered(queue, TakesOver).take_over([Carried(found)])
        there = await find(queue, "a")
        assert len(there.came_from) == MOST_QUEUES
        assert there.life == found.life
