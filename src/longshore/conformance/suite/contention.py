"""Contention: real processes that claim from one queue at the same time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest_asyncio

from longshore.conformance.child_processes import children
from longshore.conformance.harness import Harness
from longshore.conformance.scene import ALL, Scene, assert_adds_up, job
from longshore.conformance.suite.comparison import LONG
from longshore.media import open_queue
from longshore.queue import Count, Queue, each_job, totals

PROCESSES = 8
JOBS = 20_000 if LONG else 2_000
TIMEOUT = 120.0 + JOBS / 50
"""Real seconds after which workers that did not end fail the test; correct ones take a fraction of that."""


class Processes(Scene):
    """The fixtures of tests with processes. They use the real clock, here and in the child processes."""

    @pytest_asyncio.fixture
    async def url(self, harness: Harness) -> str:
        url = harness.url_for_processes()
        assert url is not None, "a medium that spans processes has a URL by which they open it"
        return url

    @pytest_asyncio.fixture
    async def shared(self, url: str) -> AsyncIterator[Queue]:
        """The queue of the child processes, opened in this process."""
        queue = await open_queue(url)
        yield queue
        await assert_adds_up(queue)
        await queue.close()


class ContentionTests(Processes):
    async def test_eight_processes_settle_every_job_exactly_once(self, shared: Queue, url: str) -> None:
        keys = [f"{n}" for n in range(JOBS)]
        await shared.submit([job(key, partition=f"{int(key) % 5}", priority=int(key) % 3) for key in keys])
        arguments = [(url, f"w{n}", "10", "60") for n in range(PROCESSES)]
        async with children("contending_process", *arguments) as workers:
            async with asyncio.timeout(TIMEOUT):
                outputs = await asyncio.gather(*(worker.end() for worker in workers))
            assert [worker.exit_code for worker in workers] == [0] * PROCESSES
        lines = Counter(line for each in outputs for line in each)
        assert lines == Counter(
            {"ready": PROCESSES} | {f"claimed {key} 1": 1 for key in keys} | {f"settled {key} 1": 1 for key in keys}
        )
        assert totals(await shared.stats()) == Count(completed=JOBS)
        for number, own in enumerate(outputs):
            mine = {line.split()[1] for line in own if line.startswith("settled")}
            assert mine == {j.key async for j in each_job(shared, ALL) if j.result["by"] == f"w{number}"}

    async def test_a_fleet_whose_workers_are_killed_loses_nothing(self, shared: Queue, url: str) -> None:
        keys = [f"{n}" for n in range(JOBS)]
        await shared.submit([job(key, max_attempts=1000) for key in keys])
        arguments = [(url, f"w{n}", "10", "1") for n in range(PROCESSES)]
        chance = random.Random(7)
        async with children("contending_process", *arguments) as workers:
            for doomed in workers[:5]:
                for _ in range(chance.randint(5, 60)):
                    await doomed.line()
                await doomed.kill()
            async with asyncio.timeout(TIMEOUT):
                outputs = await asyncio.gather(*(worker.end() for worker in workers))
            assert [worker.exit_code for worker in workers[5:]] == [0] * 3
        lines = Counter(line for each in outputs for line in each if line != "ready")
        assert set(lines.values()) == {1}, "no claim of a job was given twice, nor settled twice"
        settled = Counter(line.split()[1] for line in lines if line.startswith("settled"))
        assert set(settled.values()) == {1}
        assert totals(await shared.stats()) == Count(completed=JOBS)
        async for done in each_job(shared, ALL):
            history = await shared.history(done.id)
            assert done.result["epoch"] == done.epoch
            assert (done.attempts, done.epoch) == (len(history) + 1, len(history) + 1)
            if done.key in settled:
                assert f"settled {done.key} {done.epoch}" in lines, "some worker reported this settlement"
