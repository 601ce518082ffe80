"""Killing: a call of a process that is killed in the middle has its full effect or none."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from datetime import timedelta

import pytest

from longshore.conformance.child_processes import SuiteProcess, children
from longshore.conformance.killed_process import BATCH, batch, carried, follow_ons
from longshore.conformance.scene import assert_adds_up
from longshore.conformance.suite.comparison import LONG
from longshore.conformance.suite.contention import Processes
from longshore.job import Job, State
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, each_job, totals

VICTIMS = 8
"""The number of processes that are killed at the same time, each working on its own run."""
ROUNDS = range(20 if LONG else 1)
BATCHES = 30
"""The number of batches of jobs that a process finds."""
PATIENCE = 600
"""Seconds for the remaining jobs: with other tests beside it, a medium may be twenty times slower than alone."""


def _runs() -> list[str]:
    return [f"run {n}" for n in range(VICTIMS)]


async def _in_run(queue: Queue, run: str) -> dict[str, Job]:
    return {found.key: found async for found in each_job(queue, Selection(run=run))}


async def _fill(queue: Queue, *, batches: int = BATCHES) -> None:
    for run in _runs():
        await queue.submit([job for number in range(batches) for job in batch(run, number)])


async def _kill(url: str, operation: str, seed: int) -> dict[str, list[str]]:
    """Let the processes work, kill each at a random moment, and return the lines they printed."""
    randomness = random.Random(f"{operation} {seed}")

    async def kill(process: SuiteProcess, answers: int, seconds: float) -> list[str]:
        for _ in range(answers):
            assert await process.line() is not None, "the process ended before it was killed"
        # Not a wait for an event: the kill must hit any moment of a call, not only the moment after it returned.
        await asyncio.sleep(seconds)
        return await process.kill()

    async with children("killed_process", *((url, operation, run) for run in _runs())) as processes:
        kills = [kill(process, randomness.randint(1, 20), randomness.uniform(0, 0.01)) for process in processes]
        return dict(zip(_runs(), await asyncio.gather(*kills), strict=True))


async def _finish(queue: Queue) -> None:
    """Assert that all remaining jobs can be completed after a reap."""
    worker = WorkerId.new("finisher")
    want = Want(worker=worker, limit=500, lease=timedelta(seconds=PATIENCE))
    async with asyncio.timeout(PATIENCE):
        while totals(await queue.stats()).remaining:
            await queue.reap()
            leases = await queue.claim(want)
            assert all(await queue.settle([Settlement(lease, Completed(lease.job.key)) for lease in leases]))
            if not leases:
                await queue.wait(want, timedelta(milliseconds=50))
    await assert_adds_up(queue)


class KillingTests(Processes):
    @pytest.fixture(params=ROUNDS)
    def seed(self, request: pytest.FixtureRequest) -> int:
        """The seed of the random moments."""
        return int(request.param)

    async def test_killed_at_birth(self, url: str, seed: int) -> None:
        """Of the processes that create the queue at once, half are killed: all others see one uuid, and it stays."""
        randomness = random.Random(f"birth {seed}")

        async def see(process: SuiteProcess, number: int) -> str | None:
            assert await process.line() == "opening"
            if number % 2:
                return await process.line()
            # Not a wait for an event: the kill must hit any moment of the birth.
            await asyncio.sleep(randomness.uniform(0, 0.05))
            lines = await process.kill()
            return lines[1] if len(lines) > 1 else None

        async with children("killed_process", *((url, "be-born", run) for run in _runs())) as processes:
            uuids = await asyncio.gather(*(see(process, number) for number, process in enumerate(processes)))
        seen = {uuid for uuid in uuids if uuid is not None}
        queue = await open_queue(url)
        found = {job.queue async for job in each_job(queue, Selection())}
        await queue.close()
        assert found == seen
        assert len(found) == 1

    async def test_killed_while_submitting(self, shared: Queue, url: str, seed: int) -> None:
        promised = await _kill(url, "submit", seed)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            batches = defaultdict(set)
            for key in found:
                batches[int(key.partition(".")[0])].add(key)
            assert all(len(keys) == BATCH for keys in batches.values()), "no batch is there in part"
            assert len(batches) - len(lines) in {0, 1}, "what was promised is there, and at most one call more"
            assert set(batches) == set(range(len(batches)))
        await _finish(shared)

    async def test_killed_while_taking_over(self, shared: Queue, url: str, seed: int) -> None:
        if not shared.traits.takes_over:
            pytest.skip("its traits say that it takes nothing over")
        promised = await _kill(url, "take-over", seed)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            assert len(found) % BATCH == 0, "no batch is there in part"
            batches = len(found) // BATCH
            assert batches - len(lines) in {0, 1}, "what was promised is there, and at most one call more"
            for item in (item for number in range(batches) for item in carried(run, number)):
                there = found[item.job.key]
                assert (there.epoch, there.attempts, there.result) == (
                    item.job.epoch,
                    item.job.attempts,
                    item.job.result,
                )
                assert await shared.history(there.id) == list(item.history), "no job is there without its history"
        await _finish(shared)

    async def test_killed_while_claiming(self, shared: Queue, url: str, seed: int) -> None:
        await _fill(shared)
        promised = await _kill(url, "claim", seed)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            assert len(found) == BATCHES * BATCH
            reported = {key for line in lines for key in line.split()}
            taken = {key for key, job in found.items() if job.epoch}
            assert reported <= taken
            assert len(taken - reported) in {0, BATCH}, "the interrupted call claimed its whole batch or nothing"
            assert {(job.state, job.epoch) for job in found.values() if job.epoch} <= {
                (State.CLAIMED, 1),
                (State.PENDING, 1),  # if another process has reaped it by now
            }
        await _finish(shared)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            for line in lines:
                for key in line.split():
                    (crash,) = await shared.history(found[key].id)
                    assert (crash.failure.error_type, crash.worker) == ("crash", f"killed in {run}")

    async def test_killed_while_settling(self, shared: Queue, url: str, seed: int) -> None:
        # Each batch gives two answers, so half as many are enough.
        batches = BATCHES // 2
        await _fill(shared, batches=batches)
        promised = await _kill(url, "settle", seed)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            pages = {key: job for key, job in found.items() if job.kind == "page"}
            assert len(pages) == batches * BATCH
            for line in lines:
                word, *keys = line.split()
                if word == "done":
                    states = {pages[key].state for key in keys}
                    assert states <= {State.COMPLETED}, "an accepted settlement is never lost"
            word, *keys = lines[-1].split()
            if word == "try":
                # A job whose lease had expired may have been taken back before the settlement arrived.
                kept = [pages[key] for key in keys if not await shared.history(pages[key].id)]
                assert len({job.state for job in kept}) <= 1, "a batch is settled whole or not at all"
            expected = {
                child.key
                for key, job in pages.items()
                if job.state is State.COMPLETED
                for child in follow_ons(run, key)
            }
            assert set(found) - set(pages) == expected, "follow-on jobs come with the settlement, or not at all"
            assert all(job.result == (key if job.state is State.COMPLETED else None) for key, job in pages.items())
        await _finish(shared)

    async def test_killed_while_renewing(self, shared: Queue, url: str, seed: int) -> None:
        await _fill(shared, batches=2)
        promised = await _kill(url, "renew", seed)
        await _finish(shared)
        for run, lines in promised.items():
            found = await _in_run(shared, run)
            assert len(found) == 2 * BATCH
            for key in lines[0].split():
                (crash,) = await shared.history(found[key].id)
                assert (crash.epoch, crash.failure.error_type) == (1, "crash")
                assert (found[key].epoch, found[key].attempts) == (2, 2)

    async def test_killed_while_reaping(self, shared: Queue, url: str, seed: int) -> None:
        await _fill(shared, batches=5)
        await _kill(url, "reap", seed)
        for run in _runs():
            found = await _in_run(shared, run)
            assert len(found) == 5 * BATCH
            for job in found.values():
                history = await shared.history(job.id)
                assert {entry.failure.error_type for entry in history} <= {"crash"}
                assert [entry.epoch for entry in history] == list(range(1, job.attempts + 1))
                assert job.epoch == job.attempts + (job.state is State.CLAIMED)
        await _finish(shared)

    async def test_killed_while_cancelling_and_retrying(self, shared: Queue, url: str, seed: int) -> None:
        await _fill(shared, batches=10)
        promised = await _kill(url, "cancel-and-retry", seed)
        for run in promised:
            found = await _in_run(shared, run)
            assert len(found) == 10 * BATCH
            states = {job.state for job in found.values()}
            assert len(states) == 1, "a selection is operated on whole or not at all"
            assert states <= {State.CANCELLED, State.PENDING}
        await shared.retry(Selection())
        await _finish(shared)
        assert totals(await shared.stats()).completed == VICTIMS * 10 * BATCH

    async def test_killed_while_pruning(self, shared: Queue, url: str, seed: int) -> None:
        await _fill(shared, batches=1)
        promised = await _kill(url, "prune", seed)
        for run in promised:
            found = await _in_run(shared, run)
            assert len(found) in {0, BATCH}, "a selection is pruned whole or not at all"
            assert len({job.state for job in found.values()}) <= 1
            again = await shared.submit(batch(run, 0))
            assert again.duplicates == len(found)
        await shared.retry(Selection())
        await _finish(shared)
        assert totals(await shared.stats()).completed == VICTIMS * BATCH
