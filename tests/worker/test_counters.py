"""The final statistics of a worker name the claim success rate where the queue counts it (A3, A14)."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from longshore.errors import QueueUnavailableError
from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure
from longshore.queue import Traits
from longshore.worker.status import counters as reporting
from longshore.worker.status.counters import WorkerReport, claim_success_rate


class Racing(MemoryQueue):
    """A queue that counts races, and may be out of reach."""

    traits = Traits(name="racing", spans_processes=False, spans_machines=False, wakes=True, counts_lost_claims=True)

    def __init__(self, rate: float | None) -> None:
        super().__init__()
        self._rate = rate

    async def claim_success_rate(self) -> float:
        if self._rate is None:
            raise QueueUnavailableError("it does not answer")
        return self._rate


def report(rate: float | None, stale: int = 0) -> WorkerReport:
    return WorkerReport(
        worker="w",
        claimed=2,
        completed=2,
        failed=0,
        retried=0,
        snoozed=0,
        released=0,
        stale=stale,
        lost_races=0,
        started=0.0,
        ended=60.0,
        seconds=60.0,
        reason="",
        exit_code=0,
        claim_success_rate=rate,
    )


async def test_the_rate_is_that_of_the_queue() -> None:
    rate = await claim_success_rate(Racing(0.975))
    assert report(rate).summary == "2 completed, 0 failed, claim success rate 97.5%, runtime 0:01:00, 120 jobs/hour"


async def test_a_queue_that_counts_no_races_or_is_gone_leaves_it_out() -> None:
    assert await claim_success_rate(MemoryQueue()) is None
    assert await claim_success_rate(Racing(None)) is None
    assert report(None).summary == "2 completed, 0 failed, runtime 0:01:00, 120 jobs/hour"


@pytest.mark.parametrize(("stale", "said"), [(1, "1 lease lost"), (2, "2 leases lost")])
def test_lost_leases_are_counted(stale: int, said: str) -> None:
    assert f", {said}, " in report(None, stale).summary


async def test_a_queue_that_hangs_does_not_keep_a_worker_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Racing):
        async def claim_success_rate(self) -> float:
            await asyncio.Event().wait()
            return 1.0

    monkeypatch.setattr(reporting, "_ANSWER_SECONDS", 0.0)
    assert await claim_success_rate(Hanging(1.0)) is None


async def test_the_last_line_of_a_worker_names_it(run_worker: Any) -> None:
    @handler("echo")
    async def echo(job: Any) -> None:
        return None

    stream = io.StringIO()
    configure(format="text", stream=stream)
    queue = Racing(0.9)
    await queue.submit([new_job("echo", {})])
    assert (await run_worker(queue, echo)).claim_success_rate == 0.9
    assert "Final statistics: 1 completed, 0 failed, claim success rate 90.0%, runtime" in stream.getvalue()
