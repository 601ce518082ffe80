"""Moves: each job ends up in one place, and whatever dies, is lost or disagrees on the way, nothing goes silently."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError, UsageError
from longshore.job import Job, State
from longshore.lease import Want
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Selection, Submitted
from longshore.runs.control.growth_limits import GrowthLimits, limits_of, set_limits
from longshore.runs.control.pause import pause, resume
from longshore.runs.transfer import copy_jobs, move_jobs
from longshore.runs.transfer.copy_jobs import Copied, copy
from longshore.runs.transfer.move_jobs import HOLD, Move, Moved, mover
from longshore.wrappers.worker_queue import WorkerQueue

from .test_copy_jobs import BROKEN, HOUR, WANDA, by_key, one_of_each, quiet, settle, submit

FOR_GOOD = Failed(msgspec.structs.replace(BROKEN, retryable=False))


class Died(BaseException):
    """Like a kill: nobody handles it."""


class Cut(MemoryQueue):
    """A queue whose caller dies before one of its calls, or to which one of them fails; otherwise as any other."""

    cut: str = ""
    error: BaseException

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "cut"):
            return self._fail_instead
        return object.__getattribute__(self, name)

    async def _fail_instead(self, *_: Any, **__: Any) -> Any:
        raise self.error


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(clock: ManualClock) -> Cut:
    return Cut(clock)


@pytest.fixture
def target(clock: ManualClock) -> Cut:
    return Cut(clock)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (copy_jobs, move_jobs):
        monkeypatch.setattr(module, "BATCH", 2)


async def move(source: MemoryQueue, target: MemoryQueue) -> Moved:
    return await Move(WorkerQueue(source, ManualClock()), target, "r", route=("a", "b")).carry_out(quiet)


async def broken_off(source: Cut, target: Cut, at: Cut, call: str, error: BaseException | None = None) -> None:
    """A move that ends at the first call of that name to one of the two."""
    at.cut, at.error = call, error or Died()
    with pytest.raises(type(at.error)):
        await move(source, target)
    at.cut = ""


async def states(queue: MemoryQueue) -> dict[str, State]:
    return {key: job.state for key, job in (await by_key(queue)).items()}


async def only(queue: MemoryQueue) -> Job:
    [job] = await queue.jobs(Selection())
    return job


async def test_a_move_leaves_only_what_is_held_or_not_due(source: MemoryQueue, target: MemoryQueue) -> None:
    await one_of_each(source)
    before = await by_key(source)
    histories = {key: await source.history(job.id) for key, job in before.items()}
    done = await move(source, target)
    assert (done.moved, done.differing) == (5, 0)
    assert (done.left.claimed, done.left.pending, done.left.total) == (1, 1, 2)
    assert set(await by_key(source)) == {"claimed", "delayed"}
    after = await by_key(target)
    assert {key: job.state for key, job in after.items()} == {
        "completed": State.COMPLETED,
        "failed": State.FAILED,
        "cancelled": State.CANCELLED,
        "tried": State.PENDING,
        "child": State.PENDING,
    }
    # Claimed once more on the way, with no attempt counted.
    assert (after["tried"].epoch, after["tried"].attempts) == (2, 1)
    assert {key: await target.history(job.id) for key, job in after.items()} == {key: histories[key] for key in after}


async def test_pending_jobs_of_a_paused_run_stay(source: Cut, target: Cut) -> None:
    await submit(source, "a", "b")
    await settle(source, Completed("A"))
    await pause(source, "r")
    assert (await move(source, target)).left.pending == 1
    assert set(await by_key(target)) == {"a"}
    await resume(source, "r")
    assert (await move(source, target)).left.total == 0


async def test_the_limits_of_a_run_move_with_it(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await set_limits(source, "r", GrowthLimits(max_jobs=4))
    await move(source, target)
    assert await limits_of(target, "r") == GrowthLimits(max_jobs=4)


async def test_limits_that_the_target_has_are_kept(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await set_limits(source, "r", GrowthLimits(max_jobs=4))
    await set_limits(target, "r", GrowthLimits(max_depth=2))
    await copy(source, target, "r", progress=quiet)
    assert await limits_of(target, "r") == GrowthLimits(max_depth=2)


async def test_a_move_in_several_goes_brings_everything(source: Cut, target: Cut, clock: ManualClock) -> None:
    await submit(source, "a", "b", not_before=clock.now() + 60)
    going = Move(WorkerQueue(source, clock), target, "r", route=("a", "b"))
    assert (await going.carry_out(quiet)).left.pending == 2
    clock.advance(61)
    assert (await going.carry_out(quiet)).left.total == 0
    assert set(await by_key(target)) == {"a", "b"}


async def test_a_result_that_the_target_does_not_have_stays(source: MemoryQueue, target: MemoryQueue) -> None:
    await submit(source, "a", "b", "c")
    await copy(source, target, None, progress=quiet)
    await settle(source, Completed("only here"))
    done = await move(source, target)
    assert done.differing == 1
    [left] = await source.jobs(Selection())
    assert (left.key, left.result) == ("a", "only here")
    assert (await by_key(target))["a"].state is State.PENDING


async def test_a_failure_that_the_target_knows_nothing_of_stays(source: MemoryQueue, target: MemoryQueue) -> None:
    await submit(source, "a")
    await copy(source, target, None, progress=quiet)
    await settle(source, Failed(msgspec.structs.replace(BROKEN, retryable=False)))
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.failed) == (0, 1, 1)


async def test_a_copy_that_is_there_lets_the_source_go(source: MemoryQueue, target: MemoryQueue) -> None:
    keys = [str(n) for n in range(9)]
    await submit(source, *keys)
    await settle(
        source, *(Completed(key) for key in keys[:6]), Failed(msgspec.structs.replace(BROKEN, retryable=False))
    )
    await submit(target, "not from here", run="r")
    await copy(source, target, None, progress=quiet)
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.total) == (9, 0, 0)
    assert {job.key: job.result for job in (await by_key(target)).values() if job.state is State.COMPLETED} == {
        key: key for key in keys[:6]
    }


def test_the_worker_of_a_move_is_known_again_and_keeps_no_secret() -> None:
    assert mover("a", "b", "r") == mover("a", "b", "r")
    assert len({mover("a", "b", None), mover("a", "c", None), mover("a", "b", "r")}) == 3
    assert mover("postgresql://u:one@h/d", "b", None) == mover("postgresql://u:two@h/d", "b", None)


async def test_a_completion_with_another_result_is_kept_in_both(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await copy(source, target, None, progress=quiet)
    await settle(source, Completed("ours"))
    await settle(target, Completed("theirs"))
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.completed) == (0, 1, 1)
    assert ((await only(source)).result, (await only(target)).result) == ("ours", "theirs")


async def test_a_failure_of_another_kind_is_kept_in_both(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await copy(source, target, None, progress=quiet)
    await settle(source, FOR_GOOD)
    await settle(target, Failed(msgspec.structs.replace(BROKEN, message="otherwise", retryable=False)))
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.failed) == (0, 1, 1)


async def test_a_failure_that_arrived_and_was_tried_again_there_lets_the_source_go(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await settle(source, FOR_GOOD)
    await broken_off(source, target, source, "prune")
    await target.retry(Selection())
    await settle(target, Completed("at last"))
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.total) == (1, 0, 0)
    assert (await only(target)).result == "at last"


async def test_what_was_cancelled_here_and_waits_there_is_kept_in_both(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await copy(source, target, None, progress=quiet)
    await source.cancel(Selection())
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.cancelled) == (0, 1, 1)
    assert await states(target) == {"a": State.PENDING}


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_what_waits_here_and_was_given_up_there_is_kept_in_both(source: Cut, target: Cut, how: str) -> None:
    await submit(source, "a", "b", "c")
    await submit(target, "b")
    if how == "cancelled":
        await target.cancel(Selection())
    else:
        await settle(target, FOR_GOOD)
    done = await move(source, target)
    assert (done.moved, done.differing, done.given_up) == (2, 0, 1)
    left = await only(source)
    assert (left.key, left.state, left.attempts, left.not_before) == ("b", State.PENDING, 0, None)
    assert (await states(target))["b"] == how
    assert (await move(source, target)).given_up == 1


async def test_what_waits_here_and_is_done_there_goes(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await submit(target, "a")
    await settle(target, Completed("there"))
    assert (await move(source, target)).left.total == 0
    assert (await only(target)).result == "there"


async def test_what_may_have_arrived_is_not_handed_out_until_somebody_goes_on(
    source: Cut, target: Cut, clock: ManualClock
) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "settle")
    assert await states(target) == {"a": State.PENDING}
    clock.advance(timedelta(days=29).total_seconds())
    await source.reap()
    assert await source.claim(Want(worker=WANDA)) == []
    await settle(target, Completed("there"))
    done = await move(source, target)
    assert (done.moved, done.left.total) == (1, 0)
    assert (await only(target)).result == "there"


async def test_what_nobody_took_back_is_still_the_moves_own_after_the_time(
    source: Cut, target: Cut, clock: ManualClock
) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "settle")
    clock.advance(HOLD.total_seconds() + 1)
    await settle(target, Completed("there"))
    assert (await move(source, target)).left.total == 0


async def test_what_ran_in_both_after_the_time_is_kept_in_both(source: Cut, target: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "settle")
    clock.advance(HOLD.total_seconds() + 1)
    await source.reap()
    await settle(source, Completed("here"))
    await settle(target, Completed("there"))
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.completed) == (0, 1, 1)
    assert ((await only(source)).result, (await only(target)).result) == ("here", "there")


@pytest.mark.parametrize("error", [QueueUnavailableError("away"), Died()], ids=["an error", "a Ctrl-C"])
async def test_going_on_never_gives_back_what_may_have_arrived(source: Cut, target: Cut, error: BaseException) -> None:
    await submit(source, "a")
    await settle(source, Failed(BROKEN))
    await broken_off(source, target, source, "settle")
    await broken_off(source, target, source, "history", error)
    assert await source.claim(Want(worker=WANDA)) == []
    assert await states(target) == {"a": State.PENDING}
    assert (await move(source, target)).left.total == 0


@pytest.mark.parametrize("outcome", [FOR_GOOD, None], ids=["failed", "cancelled"])
async def test_what_arrived_and_was_given_up_there_is_not_brought_back(
    source: Cut, target: Cut, outcome: Failed | None
) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "settle")
    if outcome is None:
        await target.cancel(Selection())
    else:
        await settle(target, outcome)
    done = await move(source, target)
    assert (done.moved, done.given_up, done.left.total) == (1, 0, 0)


async def test_what_could_not_be_read_is_given_back(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await settle(source, Failed(BROKEN))
    await broken_off(source, target, source, "history", RuntimeError("no"))
    job = await only(source)
    assert (job.state, job.attempts) == (State.PENDING, 1)


async def test_what_the_target_cannot_store_is_given_back(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await broken_off(source, target, target, "take_over", UsageError("too big"))
    assert await states(source) == {"a": State.PENDING}


async def test_what_the_target_may_have_got_is_held(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await broken_off(source, target, target, "take_over", QueueUnavailableError("who knows"))
    assert await states(source) == {"a": State.CLAIMED}


async def test_what_has_left_is_not_brought_back_by_going_on(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "prune")
    await settle(target, Completed("there"))
    await target.prune(Selection())
    done = await move(source, target)
    assert (done.moved, done.left.total) == (1, 0)
    assert await states(target) == {}


async def test_what_has_left_cannot_be_retried_or_copied(source: Cut, target: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    await broken_off(source, target, source, "prune")
    left = await only(source)
    assert (left.state, left.result) == (State.COMPLETED, {"moved_to": "b"})
    assert await source.retry(Selection()) == 0
    third = MemoryQueue(clock)
    assert await copy(source, third, None, progress=quiet) == Copied()
    assert await states(third) == {}


async def test_a_result_that_only_looks_like_it_is_moved_like_any_other(source: Cut, target: Cut) -> None:
    await submit(source, "a")
    await settle(source, Completed({"moved_to": "b"}))
    await move(source, target)
    assert (await only(target)).result == {"moved_to": "b"}


async def test_what_dead_workers_held_comes_along(source: Cut, target: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    await submit(source, "b", max_attempts=1)
    await source.claim(Want(worker=WANDA, limit=2, lease=timedelta(seconds=1)))
    clock.advance(2)
    done = await move(source, target)
    assert (done.moved, done.left.total) == (2, 0)
    assert await states(target) == {"a": State.PENDING, "b": State.FAILED}


class Meanwhile(MemoryQueue):
    """A target while which takes over, something happens once."""

    happens: Any = None

    async def take_over(self, carried: Any) -> Submitted:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return await super().take_over(carried)


async def test_what_is_cancelled_on_its_way_arrives_cancelled(source: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    target = Meanwhile(clock)
    target.happens = lambda: source.cancel(Selection())
    done = await move(source, target)
    assert (done.moved, done.differing, done.left.total) == (1, 0, 0)
    assert await states(target) == {"a": State.CANCELLED}


async def test_what_is_retried_and_completed_on_its_way_is_kept_in_both(source: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    await settle(source, FOR_GOOD)
    target = Meanwhile(clock)

    async def do_it_after_all() -> None:
        await source.retry(Selection())
        await settle(source, Completed("after all"))

    target.happens = do_it_after_all
    assert (await move(source, target)).moved == 0
    assert (await only(source)).result == "after all"
    assert (await move(source, target)).differing == 1


async def test_what_stood_there_in_its_own_right_is_not_withdrawn(source: Cut, clock: ManualClock) -> None:
    await submit(source, "a")
    clock.advance(1)
    target = Meanwhile(clock)
    await submit(target, "a")
    [lease] = await target.claim(Want(worker=WANDA))
    await target.settle([Settlement(lease, Released())])
    target.happens = lambda: source.cancel(Selection())
    done = await move(source, target)
    assert (done.moved, done.differing) == (0, 1)
    assert (await states(source), await states(target)) == ({"a": State.CANCELLED}, {"a": State.PENDING})


@pytest.mark.parametrize("outcomes", [(), (Completed("theirs"),)], ids=["works on it", "has completed it"])
async def test_a_lease_that_is_lost_on_the_way_changes_nothing_for_the_one_who_has_it_now(
    source: Cut, clock: ManualClock, outcomes: tuple[Completed, ...]
) -> None:
    await submit(source, "a")
    target = Meanwhile(clock)

    async def lose() -> None:
        clock.advance(HOLD.total_seconds() + 1)
        await source.reap()
        leases = await source.claim(Want(worker=WANDA, lease=HOUR))
        await source.settle([Settlement(lease, done) for lease, done in zip(leases, outcomes, strict=False)])

    target.happens = lose
    await move(source, target)
    # In one place only, as wanda left it.
    job = await only(target if outcomes else source)
    assert (job.worker, job.epoch) == ("wanda", 2)
    assert (job.state, job.result) == ((State.COMPLETED, "theirs") if outcomes else (State.CLAIMED, None))
    assert await states(source if outcomes else target) == {}
