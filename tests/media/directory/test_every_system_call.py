"""Every operation is killed before each of its system calls: the queue is then as before it or as after it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.journal import generations
from longshore.media.directory.ops.heartbeats import ABANDONED
from longshore.media.directory.ops.host_turns import HostTurn
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, each_job, totals

CALLS = ("rename", "link", "symlink", "open", "write", "fsync", "unlink", "rmdir", "mkdir")
WORKER = WorkerId("anna", "anna/1")
LEASE = timedelta(seconds=60)
ALL = Selection()
SHORT_GENERATION = 4

Step = Callable[[DirectoryQueue, ManualClock], Awaitable[Any]]


def job(key: str, **fields: Any) -> NewJob:
    return NewJob(**{"run": "run", "kind": "page", "key": key, "payload": {"key": key}} | fields)


async def three(queue: Queue, clock: ManualClock) -> None:
    await queue.submit([job("a", host="x.test"), job("b", partition="CA"), job("c", priority=-1, host="y.test")])


async def three_and_a_late_one(queue: Queue, clock: ManualClock) -> None:
    await three(queue, clock)
    await queue.submit([job("late", not_before=clock.now() + 5, host="z.test")])
    clock.advance(10)


async def four_held(queue: Queue, clock: ManualClock) -> list[Lease]:
    await queue.submit([job("a"), job("b", max_attempts=1), job("c"), job("d", host="x.test")])
    return await queue.claim(Want(worker=WORKER, limit=4, lease=LEASE))


async def four_cancelled(queue: Queue, clock: ManualClock) -> None:
    await four_held(queue, clock)
    await queue.cancel(ALL)


async def four_watched(queue: Queue, clock: ManualClock) -> None:
    await four_held(queue, clock)


async def some_notes(queue: DirectoryQueue, clock: ManualClock) -> None:
    await queue.swap_entries("pace", [StateEntry(name, ABSENT, {"of": name}) for name in ("x.test", "y.test")])


async def at_the_end_of_a_generation(queue: Queue, clock: ManualClock) -> None:
    for number in range(2 * SHORT_GENERATION):
        await queue.submit([job(str(number))])


async def submit(queue: Queue, clock: ManualClock) -> None:
    await queue.submit([job("b"), job("x"), job("y", not_before=clock.now() + 9), job("z", kind="image")])


async def take_over(queue: DirectoryQueue, clock: ManualClock) -> None:
    broken = Failure("processing", "it broke there")
    attempt = Attempt(epoch=1, worker="wanda", ended_at=clock.now(), failure=broken)
    parent = JobName("list", "first")

    def carried(key: str, *history: Attempt, **fields: Any) -> Carried:
        theirs: dict[str, Any] = {
            "id": "7",
            "run": "run",
            "kind": "page",
            "key": key,
            "payload": {"key": key},
            "epoch": 3,
        }
        return Carried(Job(**theirs | fields), history)

    settled = {"settled_at": clock.now(), "worker": "wanda"}
    await queue.take_over(
        [
            carried("b"),
            carried("ready", parent=parent, depth=2),
            carried("delayed", attempt, attempts=1, failure=broken, not_before=clock.now() + 9),
            carried("claimed", state=State.CLAIMED, worker="wanda"),
            carried("completed", state=State.COMPLETED, attempts=1, result={"n": 1}, **settled),
            carried("failed", attempt, state=State.FAILED, attempts=1, failure=broken, partition="TX", **settled),
            carried("cancelled", state=State.CANCELLED, **settled),
        ]
    )


async def claim(queue: Queue, clock: ManualClock) -> None:
    await queue.claim(Want(worker=WORKER, limit=3, lease=LEASE))


async def claim_of_other_hosts(queue: Queue, clock: ManualClock) -> None:
    await queue.claim(Want(worker=WORKER, limit=3, lease=LEASE, without_hosts=frozenset({"x.test"})))


async def note(queue: DirectoryQueue, clock: ManualClock) -> None:
    known = await queue.read_entries("pace")
    new = {"x.test": 1, "y.test": None, "z.test": 3}
    await queue.swap_entries("pace", [StateEntry(name, known.get(name).version, value) for name, value in new.items()])


async def settle(queue: Queue, clock: ManualClock) -> None:
    broken = Failure("processing", "it broke")
    outcomes: dict[str, Outcome] = {
        "a": Completed({"n": 1}, (job("x"), job("y", kind="image"), job("c"))),
        "b": Failed(broken),
        "c": Snoozed(timedelta(seconds=30)),
        "d": Released(),
    }
    held = [found async for found in each_job(queue, Selection(states=frozenset({State.CLAIMED})))]
    await queue.settle([Settlement(Lease(found, WORKER, 0.0), outcomes[found.key]) for found in held])


async def cancel(queue: Queue, clock: ManualClock) -> None:
    await queue.cancel(ALL)


async def retry(queue: Queue, clock: ManualClock) -> None:
    await queue.retry(ALL)


async def prune(queue: Queue, clock: ManualClock) -> None:
    await queue.prune(ALL)


async def reap(queue: Queue, clock: ManualClock) -> None:
    await queue.reap()
    clock.advance(90)
    await queue.reap()


OPERATIONS: list[tuple[Step, Step]] = [
    (three, submit),
    (three, take_over),
    (three, claim),
    (three_and_a_late_one, claim),
    (three_and_a_late_one, claim_of_other_hosts),
    (some_notes, note),
    (four_held, settle),
    (four_held, cancel),
    (four_cancelled, retry),
    (four_cancelled, prune),
    (four_watched, reap),
    (at_the_end_of_a_generation, submit),
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process that is a copy of this one")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("scene", "operation"), OPERATIONS, ids=[f"{scene.__name__}-{what.__name__}" for scene, what in OPERATIONS]
)
def test_a_process_killed_before_any_system_call_leaves_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scene: Step, operation: Step
) -> None:
    # A kill loses nothing that was written, so a real sync would only take time. It still counts as a system call.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(generations, "GENERATION", SHORT_GENERATION)
    # Each process claims the jobs of the same hosts, or there would be many valid states after a claim.
    monkeypatch.setattr(HostTurn, "random", lambda: HostTurn("00", ""))
    start = ManualClock().now()
    template = tmp_path / "template"
    elapsed = run(template, scene, start)
    before = view(template, start + elapsed)
    done = shutil.copytree(template, tmp_path / "whole", symlinks=True)
    run(done, operation, start + elapsed)
    after = view(done, start + elapsed)
    assert before != after
    seen = set()
    for call in range(1, 1000):
        victim = shutil.copytree(template, tmp_path / str(call), symlinks=True)
        if not killed_before(call, victim, operation, start + elapsed):
            break
        left = view(victim, start + elapsed)
        assert left in (before, after), f"killed before call {call}"
        seen.add(left == after)
        assert_goes_on(victim, start + elapsed)
        shutil.rmtree(victim)
    else:
        pytest.fail("the operation never came to its end")
    assert seen == {False, True}, "deaths before and after the change were both seen"
    assert view(victim, start + elapsed) == after


def run(folder: Path, step: Step, start: float) -> float:
    """Do a step on the queue in a folder. Return the seconds by which it moved the clock."""

    async def work() -> float:
        clock = ManualClock(start)
        queue = await DirectoryQueue.open(folder, clock)
        await step(queue, clock)
        await queue.close()
        return clock.monotonic()

    return asyncio.run(work())


def view(folder: Path, start: float) -> tuple[Any, ...]:
    """Return what the queue shows, without instants; assert that its statistics agree."""

    async def look() -> tuple[Any, ...]:
        queue = await DirectoryQueue.open(folder, ManualClock(start))
        found = [each async for each in each_job(queue, ALL)]
        counted = {state: sum(each.state is state for each in found) for state in State}
        counts = totals(await queue.stats())
        assert {state: getattr(counts, state.value) for state in State} == counted
        histories = [len(await queue.history(each.id)) for each in found]
        notes = [(each.name, str(each.value)) for each in (await queue.read_entries("pace")).entries]
        await queue.close()
        return (*((*_without_instants(each), history) for each, history in zip(found, histories, strict=True)), *notes)

    return asyncio.run(look())


def _without_instants(each: Job) -> tuple[Any, ...]:
    descent = (each.parent, each.depth)
    return (
        each.id,
        each.key,
        each.kind,
        each.host,
        each.state,
        each.epoch,
        each.attempts,
        str(each.result),
        each.worker,
        *descent,
    )


def killed_before(number: int, folder: Path, operation: Step, start: float) -> bool:
    """Run the operation in a process that dies before system call `number`; return False if it finished earlier."""
    child = os.fork()
    if child == 0:
        # The child must never continue with the test.
        try:
            asyncio.run(_die(number, folder, operation, start))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - reported by the exit code
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


async def _die(number: int, folder: Path, operation: Step, start: float) -> None:
    clock = ManualClock(start)
    queue = await DirectoryQueue.open(folder, clock)
    left = number

    def deadly(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            reading = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
            left -= not reading
            if left == 0 and not reading:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, deadly(name))
    await operation(queue, clock)


def assert_goes_on(folder: Path, start: float) -> None:
    """Assert that others can finish all work, and that nothing of the dead process stays."""

    async def finish() -> None:
        clock = ManualClock(start)
        queue = await DirectoryQueue.open(folder, clock)
        await queue.submit([job("a"), job("new")])
        await queue.reap()
        clock.advance(ABANDONED.total_seconds() + 2 * LEASE.total_seconds())
        await queue.reap()
        while leases := await queue.claim(Want(worker=WorkerId.new(), limit=100, lease=LEASE)):
            assert all(await queue.settle([Settlement(lease, Completed()) for lease in leases]))
        assert totals(await queue.stats()).remaining == 0
        keys = [(each.kind, each.key) async for each in each_job(queue, ALL)]
        assert len(keys) == len(set(keys))
        assert {("page", "a"), ("page", "new")} <= set(keys)
        await queue.close()

    asyncio.run(finish())
    assert list((folder / "staging").iterdir()) == []
    assert list((folder / "trash").iterdir()) == []
