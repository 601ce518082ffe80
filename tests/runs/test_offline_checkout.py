"""Bundles: jobs that are taken away, worked on elsewhere and brought back, with the source's leases as the fence."""

from __future__ import annotations

import itertools
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, UsageError
from longshore.job import Job, JobName, State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, totals
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, limits_of, set_limits
from longshore.runs.control.pause import EVERYTHING, pause
from longshore.runs.transfer import copy_jobs, offline_checkout, offline_merge
from longshore.runs.transfer.offline_checkout import CheckoutFile, Terms, check_out, prepare_checkout
from longshore.runs.transfer.offline_merge import MergeResult
from longshore.wrappers.worker_queue import WorkerQueue

from . import dying
from .test_copy_jobs import killed

HOLD = timedelta(hours=24)
BROKEN = Failure(error_type="processing", message="it broke")
FOR_GOOD = msgspec.structs.replace(BROKEN, retryable=False)
OFFLINE = WorkerId.new("offline")
SECRET = "postgresql://me:hunter2@db/jobs"


def quiet(_: int) -> None:
    return None


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (offline_checkout, copy_jobs, offline_merge):
        monkeypatch.setattr(module, "BATCH", 2)


class Trip:
    """A source, a checkout taken from it, and the way there and back."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.source = MemoryQueue(self.clock)
        self.checkout = MemoryQueue(self.clock)
        self.path = folder / "bundle.jsonl"

    async def fill(self, *keys: str, **fields: Any) -> None:
        await self.source.submit([new_job("page", {"key": key}, run="r", key=key, **fields) for key in keys])

    async def take(self, limit: int = 100, **fields: Any) -> int:
        checkout_file = CheckoutFile.create(self.path, SECRET, Terms(limit=limit, hold=HOLD, **fields))
        return await check_out(WorkerQueue(self.source, self.clock), self.checkout, checkout_file, progress=quiet)

    async def work(self, **outcomes: Outcome) -> None:
        """Claim in the checkout as long as there is anything, and settle those that are named; hold the others."""
        while leases := await self.checkout.claim(Want(worker=OFFLINE, limit=10, lease=HOLD)):
            known = [lease for lease in leases if lease.job.key in outcomes]
            await self.checkout.settle([Settlement(lease, outcomes.pop(lease.job.key), 1.5) for lease in known])
        assert not outcomes

    async def work_on(self, key: str, outcome: Outcome) -> None:
        """Settle one job of the checkout and leave the others."""
        leases = await self.checkout.claim(Want(worker=OFFLINE, limit=100, lease=HOLD))
        await self.checkout.settle(
            [Settlement(lease, outcome if lease.job.key == key else Released(), 1.5) for lease in leases]
        )

    async def merge(self) -> MergeResult:
        return await offline_merge.merge(
            self.checkout,
            WorkerQueue(self.source, self.clock),
            CheckoutFile.read(self.path),
            self.clock,
            progress=quiet,
        )

    async def there(self) -> dict[str, Job]:
        return await by_key(self.source)


async def by_key(queue: Queue) -> dict[str, Job]:
    return {job.key: job for job in await queue.jobs(Selection())}


def child(key: str) -> Any:
    return new_job("page", {"key": key}, key=key)


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


async def test_what_is_taken_away_is_pending_in_the_checkout_and_held_in_the_source(trip: Trip) -> None:
    await trip.fill(*"abcde")
    assert await trip.take(3) == 3
    assert {key: job.state for key, job in (await trip.there()).items()} == {
        **dict.fromkeys("abc", State.CLAIMED),
        **dict.fromkeys("de", State.PENDING),
    }
    assert {(job.key, job.state, job.epoch) for job in await trip.checkout.jobs(Selection())} == {
        (key, State.PENDING, 1) for key in "abc"
    }


async def test_the_source_keeps_them_for_as_long_as_was_agreed(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    trip.clock.advance(HOLD.total_seconds() - 1)
    assert (await trip.source.reap()).returned == 0
    trip.clock.advance(2)
    assert (await trip.source.reap()).returned == 1


async def test_only_what_the_terms_say_is_taken(trip: Trip) -> None:
    await trip.fill("a", partition="CA")
    await trip.fill("b", partition="NY")
    await trip.source.submit([new_job("doc", {}, run="r", key="c", partition="CA"), new_job("page", {}, key="d")])
    await trip.take(run="r", kinds=frozenset({"page"}), partitions=frozenset({"CA"}))
    assert list(await by_key(trip.checkout)) == ["a"]


async def test_results_are_settled_with_the_leases_of_the_source(trip: Trip) -> None:
    await trip.fill(*"abcd", max_attempts=3)
    await trip.take()
    await trip.work(a=Completed({"n": 1}), b=Failed(FOR_GOOD), c=Failed(BROKEN), d=Completed(None))
    assert await trip.merge() == MergeResult(completed=2, failed=1, busy=1)
    there = await trip.there()
    assert (there["a"].state, there["a"].result, there["a"].seconds, there["a"].attempts) == (
        State.COMPLETED,
        {"n": 1},
        1.5,
        1,
    )
    assert (there["b"].state, there["b"].failure) == (State.FAILED, FOR_GOOD)
    assert there["c"].state is State.CLAIMED


async def test_a_failure_that_may_be_tried_again_counts_one_attempt_and_waits_in_the_source(trip: Trip) -> None:
    await trip.fill("a", max_attempts=9)
    await trip.take()
    for delay in (0, 0, 90):
        await trip.work_on("a", Failed(BROKEN, retry_in=timedelta(seconds=delay)))
    assert await trip.merge() == MergeResult(retried=1)
    [job] = await trip.source.jobs(Selection())
    assert (job.state, job.attempts, job.failure) == (State.PENDING, 1, BROKEN)
    assert job.not_before == trip.clock.now() + 90
    assert [attempt.seconds for attempt in await trip.source.history(job.id)] == [1.5]


@pytest.mark.parametrize("not_before", [1e18, 1e300, float("inf")])
async def test_a_time_of_a_checkout_that_no_calendar_has_becomes_a_year(trip: Trip, not_before: float) -> None:
    await trip.fill("a", max_attempts=9)
    await trip.take()
    await trip.work_on("a", Failed(BROKEN))
    honest = trip.checkout.jobs

    async def jobs(*args: Any, **kwargs: Any) -> list[Job]:
        return [msgspec.structs.replace(job, not_before=not_before) for job in await honest(*args, **kwargs)]

    trip.checkout.jobs = jobs  # type: ignore[method-assign]
    assert (await trip.merge()).retried == 1
    [there] = await trip.source.jobs(Selection())
    assert there.not_before == trip.clock.now() + timedelta(days=366).total_seconds()


async def test_a_job_that_used_up_its_attempts_in_the_checkout_has_failed_in_the_source(trip: Trip) -> None:
    await trip.fill("a", max_attempts=2)
    await trip.take()
    await trip.work_on("a", Failed(BROKEN))
    await trip.work_on("a", Failed(BROKEN))
    assert await trip.merge() == MergeResult(failed=1)
    assert await trip.merge() == MergeResult(merged_before=1)
    [job] = await trip.source.jobs(Selection())
    assert (job.state, job.attempts, job.max_attempts) == (State.FAILED, 1, 2)


async def test_untouched_jobs_are_given_back_and_nobody_works_on_them_in_the_checkout_any_more(trip: Trip) -> None:
    await trip.fill("a", "b", "c")
    await trip.take()
    await trip.work_on("b", Snoozed(timedelta(seconds=30)))
    [cancelled] = [job.id for job in await trip.checkout.jobs(Selection()) if job.key == "c"]
    await trip.checkout.cancel(Selection(ids=frozenset({cancelled})))
    assert await trip.merge() == MergeResult(released=3)
    there = await trip.there()
    assert [(job.state, job.attempts) for job in there.values()] == [(State.PENDING, 0)] * 3
    assert there["b"].not_before == trip.clock.now() + 30
    assert totals(await trip.checkout.stats()).pending == 0


async def test_a_lease_that_ran_out_is_refused_and_nothing_of_it_is_written(trip: Trip) -> None:
    await trip.fill("a", "b", "c")
    await trip.take()
    await trip.work(a=Completed("late", (child("unwanted"),)), b=Failed(BROKEN), c=Failed(FOR_GOOD))
    trip.clock.advance(HOLD.total_seconds() + 1)
    await trip.source.reap()
    leases = await trip.source.claim(Want(worker=WorkerId.new("other"), limit=1))
    await trip.source.settle([Settlement(leases[0], Completed("theirs"))])
    before = await trip.there()
    await trip.checkout.reap()
    for _ in range(2):
        assert await trip.merge() == MergeResult(refused=3)
        assert await trip.there() == before
    assert before["a"].result == "theirs"


async def test_merging_twice_changes_nothing(trip: Trip) -> None:
    await trip.fill(*"abcde")
    await trip.take()
    await trip.checkout.submit([new_job("page", {}, run="r", key="own")])
    await trip.work_on("a", Completed(1, (child("x"), child("y"))))
    await trip.work_on("x", Completed(2, (child("z"),)))
    await trip.work_on("b", Failed(FOR_GOOD))
    await trip.work_on("c", Failed(BROKEN))
    first = await trip.merge()
    assert first == MergeResult(completed=1, failed=1, retried=1, released=2, created=4)
    # Somebody goes on with it, and clears away: merging must not bring it back.
    leases = await trip.source.claim(Want(worker=WorkerId.new("other"), limit=100))
    await trip.source.settle([Settlement(lease, Completed("theirs")) for lease in leases])
    await trip.source.prune(Selection())
    await trip.fill("unrelated", "a")
    before = await trip.there()
    assert await trip.merge() == MergeResult(merged_before=5)
    assert await trip.there() == before


async def test_what_was_born_in_the_checkout_comes_with_its_parent(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("done"), child("waiting"), child("tried"))))
    await trip.work_on("done", Completed("D", (child("below"),)))
    await trip.work_on("tried", Failed(BROKEN))
    assert await trip.merge() == MergeResult(completed=1, created=4)
    there = await trip.there()
    assert {key: (job.state, job.result, job.attempts, job.depth) for key, job in there.items()} == {
        "a": (State.COMPLETED, "A", 1, 0),
        "waiting": (State.PENDING, None, 0, 1),
        "done": (State.COMPLETED, "D", 1, 1),
        "tried": (State.PENDING, None, 1, 1),
        "below": (State.PENDING, None, 0, 2),
    }
    assert there["below"].parent == JobName("page", "done")
    assert there["waiting"].parent == JobName("page", "a")
    assert totals(await trip.checkout.stats()).pending == 0


async def test_what_was_born_in_the_checkout_keeps_to_the_number_of_jobs_of_its_run(trip: Trip) -> None:
    await set_limits(trip.source, "r", GrowthLimits(max_jobs=4))
    await trip.fill("a", "b")
    await trip.take()
    # Limits that are set in the checkout alone do not count there; they are copied with the jobs.
    await set_limits(trip.checkout, "r", GrowthLimits(max_jobs=100))
    await trip.work_on("a", Completed("A", tuple(child(f"a{n}") for n in range(3))))
    await trip.work_on("a0", Completed("A0", tuple(child(f"below{n}") for n in range(3))))
    await trip.work_on("b", Completed("B", tuple(child(f"b{n}") for n in range(3))))
    done = await trip.merge()
    assert (done.completed, done.created, done.left_out) == (2, 2, 7)
    assert totals(await trip.source.stats("r")).total == 4
    assert await left_out(trip.source, "r") == LeftOut(too_many=7)
    again = await trip.merge()
    assert (again.created, again.left_out) == (0, 0)
    assert await left_out(trip.source, "r") == LeftOut(too_many=7)


async def test_what_was_born_in_the_checkout_keeps_to_the_depth_of_its_run(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("one"),)))
    await trip.work_on("one", Completed("1", (child("two"),)))
    await trip.work_on("two", Completed("2", (child("three"),)))
    await set_limits(trip.source, "r", GrowthLimits(max_depth=1))
    done = await trip.merge()
    assert (done.created, done.left_out) == (1, 2)
    assert set(await trip.there()) == {"a", "one"}


async def test_a_run_has_its_limits_in_the_checkout_too(trip: Trip) -> None:
    await set_limits(trip.source, "r", GrowthLimits(max_jobs=4, max_depth=1))
    await trip.fill("a")
    await trip.take()
    assert await limits_of(trip.checkout, "r") == GrowthLimits(max_jobs=4, max_depth=1)


@pytest.mark.parametrize("what", ["r", EVERYTHING])
async def test_jobs_of_a_paused_run_are_not_taken_away(trip: Trip, what: str) -> None:
    await trip.fill("a", "b")
    await pause(trip.source, what)
    assert await trip.take() == 0
    assert {job.state for job in (await trip.there()).values()} == {State.PENDING}


async def test_a_child_that_the_source_knows_is_left_as_it_is_there(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.fill("b")
    await trip.work_on("a", Completed("A", (child("b"),)))
    await trip.work_on("b", Completed("offline"))
    await trip.merge()
    assert (await trip.there())["b"].state is State.PENDING


async def test_a_job_whose_child_is_still_worked_on_waits_for_it(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("slow"),)))
    [lease] = await trip.checkout.claim(Want(worker=OFFLINE, lease=HOLD))
    assert await trip.merge() == MergeResult(busy=1)
    assert (await trip.there())["a"].state is State.CLAIMED
    await trip.checkout.settle([Settlement(lease, Completed("S"))])
    assert await trip.merge() == MergeResult(completed=1, created=1)
    assert (await trip.there())["slow"].result == "S"


async def test_what_is_born_after_its_parent_was_merged_comes_with_the_next_merge(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("b"),)))

    class Busy(MemoryQueue):
        """A source during whose settlement somebody works on in the checkout."""

        async def settle(self, settlements: Any) -> list[bool]:
            await trip.work_on("b", Completed("B", (child("c"),)))
            return await super().settle(settlements)

    trip.source.__class__ = Busy
    await trip.merge()
    trip.source.__class__ = MemoryQueue
    assert await trip.merge() == MergeResult(created=1, merged_before=1)
    assert (await trip.there())["c"].state is State.PENDING


async def test_what_was_submitted_to_the_checkout_is_brought_along(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.checkout.submit([new_job("page", {}, run="r", key="own")])
    await trip.work_on("own", Completed("O", (child("below"),)))
    assert await trip.merge() == MergeResult(released=1, created=2)
    there = await trip.there()
    assert (there["own"].result, there["below"].state) == ("O", State.PENDING)


async def test_what_lost_its_parent_is_left_out_and_counted(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("b"),)))
    await trip.work_on("b", Completed("B", (child("c"),)))
    [middle] = [job.id for job in await trip.checkout.jobs(Selection()) if job.key == "b"]
    await trip.checkout.prune(Selection(ids=frozenset({middle})))
    assert await trip.merge() == MergeResult(completed=1, orphans=1)
    assert set(await trip.there()) == {"a"}


@pytest.mark.parametrize("results", [("one", "two"), (None, None)], ids=["other results", "results that say nothing"])
async def test_a_second_copy_of_a_checkout_brings_nothing(trip: Trip, results: tuple[Any, Any]) -> None:
    await trip.fill("a")
    await trip.take()
    first, second = trip.checkout, MemoryQueue(trip.clock)
    await copy_jobs.copy(first, second, None, progress=quiet)
    copied = trip.path.with_name("copied.jsonl")
    copied.write_bytes(trip.path.read_bytes())
    await trip.work_on("a", Completed(results[0], (child("first"),)))
    assert await trip.merge() == MergeResult(completed=1, created=1)
    trip.checkout, trip.path = second, copied
    [lease] = await second.claim(Want(worker=OFFLINE))
    await second.settle([Settlement(lease, Completed(results[1], (child("second"),)), 2.5)])
    for _ in range(2):
        assert await trip.merge() == MergeResult(refused=1)
    assert {key: job.result for key, job in (await trip.there()).items()} == {"a": results[0], "first": None}


async def test_what_another_merge_settles_at_the_same_time_is_not_called_lost(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.work_on("a", Completed("A", (child("b"),)))

    class Both(MemoryQueue):
        """A source in which another merge is a little faster."""

        async def settle(self, settlements: Any) -> list[bool]:
            trip.source.__class__ = MemoryQueue
            assert (await trip.merge()).completed == 1
            return await trip.source.settle(settlements)

    trip.source.__class__ = Both
    done = await trip.merge()
    assert (done.completed, done.refused) == (1, 0)
    assert set(await trip.there()) == {"a", "b"}
    assert await trip.merge() == MergeResult(merged_before=1)


async def test_what_a_dead_worker_of_the_checkout_held_is_merged_as_an_attempt(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    await trip.checkout.claim(Want(worker=OFFLINE, lease=timedelta(seconds=1)))
    assert await trip.merge() == MergeResult(busy=1)
    trip.clock.advance(2)
    assert await trip.merge() == MergeResult(retried=1)
    [job] = await trip.source.jobs(Selection())
    assert (job.state, job.attempts) == (State.PENDING, 1)
    assert job.failure is not None
    assert job.failure.error_type == "crash"


async def test_what_a_dead_worker_of_the_source_held_can_be_taken_away(trip: Trip) -> None:
    await trip.fill("a")
    await trip.source.claim(Want(worker=OFFLINE, lease=timedelta(seconds=1)))
    trip.clock.advance(2)
    assert await trip.take() == 1


async def test_a_checkout_is_not_merged_into_another_queue(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    trip.source = MemoryQueue(trip.clock)
    await trip.fill("b")
    with pytest.raises(UsageError, match=r"taken from postgresql://me:\*\*\*@db/jobs"):
        await trip.merge()


async def test_a_checkout_is_not_merged_into_a_copy_of_its_queue(trip: Trip) -> None:
    await trip.fill("a", "b")
    original, trip_copy = trip.source, MemoryQueue(trip.clock)
    await copy_jobs.copy(original, trip_copy, None, progress=quiet)
    await trip.take()
    await trip.work_on("a", Completed("A"))
    trip.source = trip_copy
    with pytest.raises(UsageError, match="Name the queue it was taken from"):
        await trip.merge()
    # Copied after they were taken away, they cannot be told apart; what is refused there is not lost.
    trip.source = MemoryQueue(trip.clock)
    await copy_jobs.copy(original, trip.source, None, progress=quiet)
    assert await trip.merge() == MergeResult(released=1, refused=1)
    trip.source = original
    assert await trip.merge() == MergeResult(completed=1, merged_before=1)
    assert [job.state for job in (await trip.there()).values()] == [State.COMPLETED, State.PENDING]


async def test_a_place_with_jobs_is_not_made_a_checkout(trip: Trip) -> None:
    await prepare_checkout(trip.checkout)
    await trip.checkout.submit([child("a")])
    with pytest.raises(UsageError, match="needs an empty queue"):
        await prepare_checkout(trip.checkout)


async def test_what_was_claimed_before_the_checkout_file_said_so_is_given_back(trip: Trip) -> None:
    await trip.fill("a", "b")
    await trip.take(1)
    await trip.source.claim(Want(worker=CheckoutFile.read(trip.path).head.worker, limit=1, lease=HOLD))
    await trip.merge()
    assert {job.state for job in (await trip.there()).values()} == {State.PENDING}


async def settle(queue: Queue, key: str, outcome: Outcome) -> None:
    held: list[Lease] = await queue.claim(Want(worker=OFFLINE, limit=100, lease=HOLD))
    await queue.settle([Settlement(lease, outcome if lease.job.key == key else Released()) for lease in held])


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is not of this system")
async def test_killed_while_taking_away_and_done_again_nothing_is_held_for_nobody(tmp_path: Path, long: bool) -> None:
    for step in itertools.count(0, 1 if long else 3):
        here, there, checkout_file = (
            f"sqlite:///{tmp_path}/{step}-a.db",
            f"dir://{tmp_path}/{step}",
            tmp_path / f"{step}.jsonl",
        )
        source, checkout = await open_queue(here), await open_queue(there)
        await source.submit([new_job("page", {}, run="r", key=key) for key in "abcdefg"])
        died = await killed("take", step, here, there, str(checkout_file))
        assert await dying.take(source, checkout, checkout_file) == 5
        count = totals(await source.stats())
        assert (count.claimed, count.pending) == (5, 2)
        assert set(await by_key(checkout)) == set("abcde")
        assert await dying.merge(checkout, source, checkout_file) == MergeResult(released=5)
        assert totals(await source.stats()).pending == 7
        await source.close()
        await checkout.close()
        if not died:
            assert step > 6
            return


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is not of this system")
async def test_killed_while_merging_and_done_again_all_is_settled_once(tmp_path: Path, long: bool) -> None:
    for step in itertools.count(0, 1 if long else 5):
        here, there, checkout_file = (
            f"sqlite:///{tmp_path}/{step}-a.db",
            f"dir://{tmp_path}/{step}",
            tmp_path / f"{step}.jsonl",
        )
        source, checkout = await open_queue(here), await open_queue(there)
        await source.submit([new_job("page", {}, run="r", key=key) for key in "abcde"])
        await dying.take(source, checkout, checkout_file)
        await settle(checkout, "a", Completed("A", (child("x"), child("y"))))
        await settle(checkout, "x", Completed("X", (child("z"),)))
        await settle(checkout, "b", Failed(FOR_GOOD))
        await settle(checkout, "c", Failed(BROKEN))
        died = await killed("merge", step, there, here, str(checkout_file))
        done = await dying.merge(checkout, source, checkout_file)
        assert (done.refused, done.busy, done.orphans) == (0, 0, 0)
        after = await by_key(source)
        assert {key: (job.state, job.result, job.attempts) for key, job in after.items()} == {
            "a": (State.COMPLETED, "A", 1),
            "b": (State.FAILED, None, 1),
            "c": (State.PENDING, None, 1),
            "d": (State.PENDING, None, 0),
            "e": (State.PENDING, None, 0),
            "x": (State.COMPLETED, "X", 1),
            "y": (State.PENDING, None, 0),
            "z": (State.PENDING, None, 0),
        }
        assert totals(await checkout.stats()).remaining == 0
        await source.close()
        await checkout.close()
        if not died:
            assert step > 20
            return
