"""The fixtures and helper functions of every test: a queue, jobs, workers, and what can be observed afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from longshore.conformance.harness import Harness, NewHarness
from longshore.errors import Failure
from longshore.extensions.find import TRAIT_OF, E
from longshore.extensions.find import find as find_extension
from longshore.job import Attempt, Job, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Outcome, Settlement
from longshore.queue import Count, Queue, Reaped, Selection, each_job, totals

T = TypeVar("T")

LEASE = timedelta(seconds=60)
MINUTE = timedelta(minutes=1)
ALL = Selection()
RUN = "run"
KIND = "page"
_TIMEOUT = 15.0
"""Real seconds after which a test fails if something that should happen at once did not."""


@pytest.mark.asyncio
class Scene:
    """The fixtures that all test classes share."""

    @pytest.fixture
    def new_harness(self) -> NewHarness:
        raise NotImplementedError(
            "give your test class a fixture `new_harness` that returns a function making a Harness"
        )

    @pytest_asyncio.fixture
    async def harness(self, new_harness: NewHarness) -> AsyncIterator[Harness]:
        harness = new_harness()
        yield harness
        await harness.close()

    @pytest_asyncio.fixture
    async def queue(self, harness: Harness) -> AsyncIterator[Queue]:
        """The queue under test. After every test, its statistics must add up."""
        queue = await harness.open()
        yield queue
        await assert_adds_up(queue)
        await queue.close()

    @pytest_asyncio.fixture
    async def other(self, harness: Harness, queue: Queue) -> AsyncIterator[Queue]:
        """A second opening of the same queue."""
        del queue  # opened first, closed last
        other = await harness.open()
        yield other
        await other.close()


def offered(queue: Queue, extension: type[E]) -> E:
    """Return an extension of the queue under test; skip the test if its traits say that it has none."""
    found = find_extension(queue, extension)
    if found is None:
        pytest.skip(f"its traits say that it does not have: {TRAIT_OF[extension]}")
    return found


def job(key: str, **fields: Any) -> NewJob:
    """Return a job to submit, with defaults for the fields that a test does not set."""
    return NewJob(**{"run": RUN, "kind": KIND, "key": key, "payload": {"n": key}} | fields)


def jobs(*keys: str, **fields: Any) -> list[NewJob]:
    """Return jobs that differ only in their key."""
    return [job(key, **fields) for key in keys]


def failure(message: str = "it broke", *, retryable: bool = True) -> Failure:
    """Return the failure of an attempt."""
    return Failure("processing", message, "shop.BrokenError", retryable)


async def claim(queue: Queue, worker: WorkerId | None = None, *, limit: int = 100, **fields: Any) -> list[Lease]:
    """Claim for a worker; without `worker`, for a new one."""
    want: dict[str, Any] = {"worker": worker or WorkerId.new("worker"), "limit": limit, "lease": LEASE}
    return await queue.claim(Want(**want | fields))


async def claim_one(queue: Queue, worker: WorkerId | None = None, **fields: Any) -> Lease:
    """Claim the first job; fail if there is none."""
    leases = await claim(queue, worker, limit=1, **fields)
    assert len(leases) == 1, "there should have been a job to claim"
    return leases[0]


async def settle(queue: Queue, lease: Lease, outcome: Outcome, *, seconds: float | None = None) -> bool:
    """Settle one lease; return whether it was accepted."""
    answers = await queue.settle([Settlement(lease, outcome, seconds)])
    assert len(answers) == 1
    return answers[0]


async def expire(harness: Harness, queue: Queue) -> Reaped:
    """Let every lease that is not renewed expire, and reap.

    The first reap is needed by media that measure silence from their own first observation of a heartbeat.
    """
    assert await queue.reap() == Reaped(), "nothing had expired yet"
    await harness.advance(LEASE.total_seconds() * 1.5)
    return await queue.reap()


def keys(found: list[Lease] | list[Job]) -> list[str]:
    """Return the keys of leases or jobs, in their order."""
    return [item.job.key if isinstance(item, Lease) else item.key for item in found]


def held(*leases: Lease) -> set[Held]:
    """Return what `renew` returns for a worker that holds these leases."""
    return {lease.held for lease in leases}


async def find(queue: Queue, key: str, *, run: str = RUN, kind: str = KIND) -> Job:
    """Return the only job of this name, as the queue shows it."""
    named = [found async for found in each_job(queue, Selection(run=run, kinds=frozenset({kind}))) if found.key == key]
    assert len(named) == 1, f"{len(named)} jobs are called {run}/{kind}/{key}"
    return named[0]


async def listed(queue: Queue, selection: Selection = ALL) -> list[str]:
    """Return the keys of the selected jobs, oldest first."""
    return [found.key async for found in each_job(queue, selection)]


async def seen(queue: Queue) -> tuple[list[Job], list[Count], list[list[Attempt]]]:
    """Return everything the queue shows, to check that nothing has changed."""
    everything = [found async for found in each_job(queue, ALL)]
    return everything, await queue.stats(), [await queue.history(found.id) for found in everything]


async def now(queue: Queue) -> float:
    """Return the current time of the queue's clock."""
    await queue.submit([job("what time is it", run="clock")])
    instant = (await find(queue, "what time is it", run="clock")).submitted_at
    await queue.cancel(Selection(run="clock"))
    await queue.prune(Selection(run="clock"))
    return instant


async def assert_adds_up(queue: Queue) -> None:
    """Assert that the statistics equal a count of all jobs, for each run, kind and partition."""
    states = Counter([(j.run, j.kind, j.partition, j.state.value) async for j in each_job(queue, ALL)])
    counts = await queue.stats()
    lanes = [(c.run, c.kind, c.partition) for c in counts]
    assert lanes == sorted(set(lanes)), "statistics are ordered by run, kind and partition, each once"
    reported = Counter(
        {
            (c.run, c.kind, c.partition, state): number
            for c in counts
            for state in ("pending", "claimed", "completed", "failed", "cancelled")
            if (number := getattr(c, state))
        }
    )
    assert reported == states
    assert totals(counts).total == states.total()


async def let_pass(harness: Harness, seconds: float, task: asyncio.Task[T]) -> T:
    """Return the task's result, while up to `seconds` seconds of the queue's time pass."""
    for _ in range(100):
        if task.done():
            break
        await harness.advance(seconds / 100)
        await asyncio.wait({task}, timeout=0.002)
    async with asyncio.timeout(_TIMEOUT):
        return await task
