"""Jobs that are left out although their payloads differ are counted, with the fields, and told once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs
from tests.services.postgres import PostgresServer

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.job import JobName, NewJob, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.stored import JsonObject
from longshore.wrappers.differing_duplicates import (
    DifferingDuplicates,
    DifferingKind,
    advice,
    differing_fields,
    differing_of,
)
from longshore.wrappers.worker_queue import WorkerQueue

SEARCH = "https://shop.example/search"


class Crawl:
    """A run on a queue in memory, and a worker that settles its jobs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue = MemoryQueue(self.clock)
        self.worker_queue = WorkerQueue(self.queue, self.clock)
        self.number = 0

    async def lease(self) -> Lease:
        self.number += 1
        await self.queue.submit([new_job("start", {"number": self.number}, run="r")])
        [lease] = await self.queue.claim(Want(worker=WorkerId.new("w"), kinds=frozenset({"start"})))
        return lease

    async def find(self, *found: NewJob) -> None:
        """Settle a job that has found these."""
        assert await self.worker_queue.settle([Settlement(await self.lease(), Completed(None, found))]) == [True]

    async def counted(self) -> DifferingDuplicates:
        await self.worker_queue.tell()
        return (await differing_of(self.queue, "r")).get("r", DifferingDuplicates())


@pytest.fixture
def crawl() -> Crawl:
    return Crawl()


def page(number: int, **fields: Any) -> NewJob:
    return new_job("search", {"url": SEARCH, "page": number}, **fields)


async def test_result_pages_that_share_a_url_are_counted_with_the_field_that_differs(crawl: Crawl) -> None:
    await crawl.find(*(page(number) for number in range(1, 6)))
    assert await crawl.counted() == DifferingDuplicates(kinds={"search": DifferingKind(jobs=4, fields={"page": 4})})


async def test_they_are_found_across_settlements_workers_and_submissions(crawl: Crawl) -> None:
    await crawl.find(page(1))
    assert not await crawl.counted()
    other = WorkerQueue(crawl.queue, crawl.clock)
    await other.settle([Settlement(await crawl.lease(), Completed(None, (page(2),)))])
    await other.tell()
    await crawl.find(page(3))
    assert (await crawl.counted()).jobs == 2


async def test_the_same_job_again_and_other_spellings_of_its_url_are_no_difference(crawl: Crawl) -> None:
    same = new_job("search", {"url": f"{SEARCH}?utm_source=menu#top", "page": 1})
    await crawl.find(page(1), page(1), same)
    await crawl.find(page(1))
    assert not await crawl.counted()


async def test_jobs_with_a_declared_identity_or_a_key_are_left_out_without_a_word(crawl: Crawl) -> None:
    await crawl.find(page(1), page(2, identity=("url",)), page(3, key=page(1).key))
    assert not await crawl.counted()


async def test_jobs_that_only_have_a_url_are_not_even_looked_up(crawl: Crawl) -> None:
    crawl.queue.payloads = pytest.fail  # type: ignore[assignment, method-assign]
    await crawl.find(new_job("page", {"url": SEARCH}), new_job("page", {"url": SEARCH}), new_job("page", {"id": 1}))
    assert not await crawl.counted()


@pytest.fixture(params=["sqlite", "postgres"])
async def stored_crawl(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Crawl]:
    """A run on a medium that knows which jobs it left out."""
    url = f"sqlite:///{tmp_path}/queue.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = f"{server.url}?schema=left_out"
    crawl = Crawl()
    queue = await open_queue(url, clock=crawl.clock)
    crawl.queue = cast("MemoryQueue", queue)
    crawl.worker_queue = WorkerQueue(queue, crawl.clock)
    yield crawl
    await queue.close()


async def test_new_jobs_are_not_even_looked_up(stored_crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup, looked_up = stored_crawl.queue.payloads, list[JobName]()

    async def noted(run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        looked_up.extend(names)
        return await lookup(run, names)

    monkeypatch.setattr(stored_crawl.queue, "payloads", noted)
    await stored_crawl.find(*(new_job("page", {"url": f"{SEARCH}/{n}", "found": "a"}) for n in range(9)))
    assert not await stored_crawl.counted()
    assert not looked_up
    await stored_crawl.find(new_job("page", {"url": f"{SEARCH}/3", "found": "b"}))
    assert (await stored_crawl.counted()).jobs == 1
    assert len(looked_up) == 1


async def test_jobs_of_a_refused_settlement_are_not_counted(crawl: Crawl) -> None:
    lease = await crawl.lease()
    await crawl.worker_queue.settle([Settlement(lease, Completed(None, (page(1),)))])
    refused = Settlement(lease, Completed(None, (page(2),)))
    assert await crawl.worker_queue.settle([refused]) == [False]
    assert not await crawl.counted()


async def test_jobs_beyond_the_limits_of_the_run_are_counted_there_and_not_here(crawl: Crawl) -> None:
    await set_limits(crawl.queue, "r", GrowthLimits(max_depth=0))
    await crawl.find(page(1), page(2))
    assert not await crawl.counted()


async def test_a_long_crawl_is_compared_without_waiting_for_the_clock(crawl: Crawl) -> None:
    many = [new_job("page", {"url": f"https://a.example/{n % 600}", "found_on": n}) for n in range(1200)]
    await crawl.find(*many)
    stored = (await differing_of(crawl.queue, "r"))["r"]
    assert stored.kinds["page"] == DifferingKind(jobs=600, fields={"found_on": 600})


async def test_the_first_difference_is_stored_at_once_and_later_ones_together(crawl: Crawl) -> None:
    """So that `wait` knows of it when the run ends, and an ordinary crawl writes no entry for every settlement."""
    keeping = asyncio.create_task(crawl.worker_queue.keep())
    stored: list[int] = []
    try:
        for number in range(1, 6):
            await crawl.find(page(number))
            for _ in range(50):
                await asyncio.sleep(0)
            found = await differing_of(crawl.queue, "r")
            stored.append(found["r"].jobs if found else 0)
        crawl.clock.advance(5)
        for _ in range(50):
            await asyncio.sleep(0)
        stored.append((await differing_of(crawl.queue, "r"))["r"].jobs)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert stored == [0, 1, 1, 1, 1, 4]


async def test_jobs_that_are_found_during_a_comparison_are_compared_too(crawl: Crawl) -> None:
    answering, asked, answer = crawl.queue.payloads, asyncio.Event(), asyncio.Event()

    async def slow(run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        asked.set()
        await answer.wait()
        return await answering(run, names)

    crawl.queue.payloads = slow  # type: ignore[method-assign]
    await crawl.find(page(1), page(2))
    comparing = asyncio.create_task(crawl.worker_queue.tell())
    await asked.wait()
    await crawl.find(page(3))
    answer.set()
    await comparing
    assert (await crawl.counted()).jobs == 2


async def test_a_queue_that_does_not_answer_delays_the_count_and_loses_none(crawl: Crawl) -> None:
    await crawl.find(page(1), page(2))
    answering = crawl.queue.payloads

    async def silent(*_: Any) -> Any:
        raise QueueUnavailableError("no answer")

    crawl.queue.payloads = silent  # type: ignore[assignment, method-assign]
    await crawl.worker_queue.tell()
    crawl.queue.payloads = answering  # type: ignore[method-assign]
    assert (await crawl.counted()).jobs == 1
    assert (await crawl.counted()).jobs == 1


async def test_it_is_logged_once_a_run_with_the_fix(crawl: Crawl) -> None:
    structlog.reset_defaults()
    with capture_logs() as lines:
        for number in range(4):
            await crawl.find(page(number))
            await crawl.worker_queue.tell()
    [line] = [line for line in lines if "duplicates" in line["event"]]
    assert (line["run"], line["jobs"]) == ("r", 1)
    assert "differ in: page." in line["event"]
    assert '@handler("search", identity=("url", "page"))' in line["event"]


def test_values_are_compared_as_they_are_stored() -> None:
    assert differing_fields({"url": "a", "n": (1, 2)}, {"url": "b", "n": [1, 2]}) == []
    assert differing_fields({"url": "a", "n": 1, "only": 0}, {"url": "a", "n": 2, "gone": 0}) == ["gone", "n", "only"]


def test_the_entry_of_a_run_stays_small() -> None:
    """A payload whose field names are data would fill it."""
    total = DifferingDuplicates()
    for number in range(200):
        more = DifferingKind(jobs=1, fields={f"f{number}": 1, "page": 1})
        total += DifferingDuplicates(kinds={"search": more, f"kind {number}": more})
    assert total.kinds["search"].jobs == 200
    assert len(total.kinds) == 20
    assert len(total.kinds["search"].fields) == 12
    assert advice(total).count('"') < 20
    assert "differ in: page, " in advice(total)
