"""A worker obeys the orders that a person gives through the queue, and publishes which payloads its handlers take."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from longshore.clock import ManualClock
from longshore.extensions.kind_schemas import read_schemas
from longshore.extensions.worker_orders import WorkerOrder, give_order, order_for
from longshore.handlers.handler import handler
from longshore.job import State
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.worker import MaxWork

ANNA = WorkerId.new("anna")


async def test_a_worker_that_is_asked_to_drain_finishes_its_job_and_ends(
    run_worker: Any, some_jobs: Any, clock: ManualClock, advance: Any
) -> None:
    begun = asyncio.Event()

    @handler("slow")
    async def slow(job: Any) -> str:
        begun.set()
        await clock.sleep(60)
        return "done"

    queue = MemoryQueue(clock)
    await queue.submit(some_jobs("slow", 3))
    working = asyncio.create_task(run_worker(queue, slow, clock=clock, concurrency=1, batch_size=1, worker=ANNA))
    await begun.wait()
    await give_order(queue, ANNA.label, ANNA.public_incarnation, WorkerOrder.DRAIN)
    report = await advance(working, clock)
    assert (report.completed, report.exit_code) == (1, 0)
    assert report.reason.startswith("asked to drain")
    states = [job.state for job in await queue.jobs(Selection())]
    assert (states.count(State.COMPLETED), states.count(State.PENDING)) == (1, 2)


async def test_a_worker_that_is_asked_to_stop_gives_its_jobs_back(
    run_worker: Any, some_jobs: Any, clock: ManualClock, advance: Any
) -> None:
    begun = asyncio.Event()

    @handler("endless")
    async def endless(job: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    queue = MemoryQueue(clock)
    await queue.submit(some_jobs("endless", 1))
    working = asyncio.create_task(run_worker(queue, endless, clock=clock, worker=ANNA))
    await begun.wait()
    await give_order(queue, ANNA.label, ANNA.public_incarnation, WorkerOrder.STOP)
    report = await advance(working, clock)
    assert (report.completed, report.exit_code) == (0, 0)
    (job,) = await queue.jobs(Selection())
    assert (job.state, job.attempts) == (State.PENDING, 0)


async def test_an_order_is_for_one_start_of_a_worker_and_is_forgotten_after_a_week(clock: ManualClock) -> None:
    queue = MemoryQueue(clock)
    again = WorkerId.new("anna")
    await give_order(queue, ANNA.label, ANNA.public_incarnation, WorkerOrder.DRAIN)
    assert await order_for(queue, ANNA.label, ANNA.public_incarnation) is WorkerOrder.DRAIN
    assert await order_for(queue, again.label, again.public_incarnation) is None
    clock.advance(8 * 24 * 3600)
    await give_order(queue, again.label, again.public_incarnation, WorkerOrder.STOP)
    assert await order_for(queue, ANNA.label, ANNA.public_incarnation) is None


class Address(BaseModel):
    street: str


@handler("named")
def named(job: Any, url: str, depth: int = 0, at: Address | None = None) -> None:
    """Take parameters by their names."""


@handler("model")
def model(job: Any, address: Address) -> None:
    """Take the payload as one model."""


@handler("bare")
def bare(job: Any) -> None:
    """Take anything."""


@handler("odd")
def odd(job: Any, call: Any, other: complex) -> None:
    """Take a type that JSON does not have."""


def test_a_handler_says_which_payload_it_takes_as_json_schema() -> None:
    schema = named.payload_schema()
    assert (schema["required"], sorted(schema["properties"])) == (["url"], ["at", "depth", "url"])
    assert schema["properties"]["url"] == {"type": "string"}
    assert schema["$defs"]["Address"]["required"] == ["street"]
    assert model.payload_schema()["required"] == ["street"]
    assert bare.payload_schema() == {"type": "object"}
    assert sorted(odd.payload_schema()["properties"]) == ["call", "other"]


async def test_a_worker_publishes_what_its_handlers_take(run_worker: Any, some_jobs: Any) -> None:
    queue = MemoryQueue()
    await queue.submit(some_jobs("bare", 1))
    await run_worker(queue, bare, named, stop=(MaxWork(1),))
    assert await read_schemas(queue) == {"bare": {"type": "object"}, "named": named.payload_schema()}
