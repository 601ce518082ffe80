"""The figures that a worker reports for metrics and health checks (D8, E14)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest
from tests.observe.test_metrics import read

from longshore import Worker
from longshore.clock import ManualClock
from longshore.errors import ValidationError
from longshore.handlers.class_handler import class_handlers
from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.observe.histogram import WAIT_BOUNDS
from longshore.observe.metrics import Metrics
from longshore.scrape.tor import Bootstrap, Tor
from longshore.worker.lifecycle.handler_checks import HandlerChecks
from longshore.worker.status.blockage import Blockage
from longshore.worker.status.observed_worker import ObservedWorker
from longshore.worker.status.worker_figures import WorkerFigures
from longshore.worker.status.worker_metrics import add_workers
from longshore.worker.status.worker_status import WorkerStatus


@handler("page", retries=0)
async def page(job: Any, kit: Any) -> Any:
    if job.payload["n"] == 0:
        raise ValidationError("not a page")
    kit.emit({"n": job.payload["n"]})
    return job.payload["n"]


class Watcher:
    """Keeps what a worker reports."""

    def __init__(self) -> None:
        self.seen: list[WorkerStatus] = []

    def __call__(self, status: WorkerStatus) -> None:
        # As it goes through the pipe: the counters are still being counted.
        self.seen.append(msgspec.json.decode(msgspec.json.encode(status), type=WorkerStatus))

    @property
    def last(self) -> WorkerFigures:
        assert self.seen[-1].figures is not None
        return self.seen[-1].figures


async def watched(
    tmp_path: Any, queue: MemoryQueue, clock: ManualClock, *handlers: Any, watcher: Watcher | None = None
) -> Watcher:
    from longshore.lease import WorkerId
    from longshore.worker import RunFinished, WorkerConfig, work
    from longshore.worker.kit.config import KitConfig

    watcher = watcher or Watcher()
    config = WorkerConfig(
        queue_url="memory://",
        handler_file=tmp_path / "handlers.py",
        worker=WorkerId.new("tester"),
        stop=(RunFinished(),),
        keep_awake=False,
        kit=KitConfig(folder=str(tmp_path / "data")),
    )
    by_kind = {each.kind: each for each in handlers}
    task = asyncio.create_task(work(config, clock=clock, handlers=by_kind, queue=queue, watcher=watcher))
    while not task.done():
        clock.advance(0.5)
        for _ in range(50):
            await asyncio.sleep(0)
    task.result()
    return watcher


async def test_every_attempt_is_counted_once_by_its_outcome(tmp_path: Any, clock: ManualClock) -> None:
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"n": n}, run="r", key=str(n), max_attempts=1) for n in range(5)])
    clock.advance(7.0)
    figures = (await watched(tmp_path, queue, clock, page)).last
    counters = figures.counters
    assert (counters.claimed, counters.completed, counters.failed, counters.retried) == (5, 4, 1, 0)
    assert sum(counters.attempt_seconds.buckets) == 5
    assert (figures.tools.records_kept, figures.held) == (4, 0)
    # The wait is measured by the queue's own clock, from the submission to the first claim.
    assert sum(counters.wait_seconds.buckets) == 5
    assert 35.0 <= counters.wait_seconds.total <= 40.0
    assert figures.vitals.success_rate == 0.8


async def test_a_job_that_is_claimed_again_has_waited_only_once(tmp_path: Any, clock: ManualClock) -> None:
    tries = []

    @handler("page", retries=3)
    async def fails_first(job: Any) -> Any:
        tries.append(job.payload)
        if len(tries) == 1:
            raise RuntimeError("once more")
        return 1

    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"n": 1}, run="r", max_attempts=3)])
    counters = (await watched(tmp_path, queue, clock, fails_first)).last.counters
    assert (counters.claimed, counters.retried, counters.completed) == (2, 1, 1)
    assert sum(counters.wait_seconds.buckets) == 1


async def test_two_clocks_are_not_compared(tmp_path: Any, clock: ManualClock) -> None:
    class SeveralClocks(MemoryQueue):
        traits = msgspec.structs.replace(MemoryQueue.traits, one_clock=False)

    queue = SeveralClocks(clock)
    await queue.submit([new_job("page", {"n": 1}, run="r")])
    counters = (await watched(tmp_path, queue, clock, page)).last.counters
    assert counters.completed == 1
    assert counters.wait_seconds.buckets == [0] * (len(WAIT_BOUNDS) + 1)


async def test_a_worker_whose_tor_starts_says_so_and_is_not_healthy(
    tmp_path: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Bootstrap | None] = [Bootstrap(45, "Loading relay descriptors")] * 3 + [None] * 1000
    monkeypatch.setattr(Tor, "bootstrapping", property(lambda _: steps.pop(0) if len(steps) > 1 else None))

    @handler("page")
    async def slow(job: Any) -> Any:
        await clock.sleep(20)
        return 1

    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"n": 1}, run="r")])
    seen = (await watched(tmp_path, queue, clock, slow)).seen
    waiting = [each for each in seen if each.figures is not None and "tor" in each.figures.waits]
    assert waiting
    assert "tor: 45 % (Loading relay descriptors)" in waiting[0].trouble
    assert waiting[0].figures is not None
    assert waiting[0].figures.vitals.verdict.startswith("waits for tor: 45 %")
    assert not waiting[0].figures.ready
    last = seen[-1].figures
    assert last is not None
    assert last.ready


class Filings(Worker):
    kinds: ClassVar[Any] = "filing"
    answers: ClassVar[list[bool]] = []
    ended: ClassVar[asyncio.Event]

    async def process_task(self, task: Any) -> Any:
        await self.ended.wait()
        return {}

    def health_check(self) -> bool:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_health_check_that_fails_later_is_told_until_it_passes_again(clock: ManualClock) -> None:
    Filings.answers = [False, False, True]
    (made,) = class_handlers(Filings).values()
    blockage = Blockage()
    assert made.instance is not None
    checking = asyncio.create_task(HandlerChecks([made.instance], blockage, clock).run())
    for trouble in ("the health check of Filings failed", ""):
        while blockage.failed_check != trouble:
            clock.advance(60.0)
            await asyncio.sleep(0.001)
    checking.cancel()


async def test_a_worker_whose_health_check_fails_later_is_not_healthy(tmp_path: Any, clock: ManualClock) -> None:
    Filings.answers, Filings.ended = [True, False], asyncio.Event()

    class Ending(Watcher):
        def __call__(self, status: WorkerStatus) -> None:
            super().__call__(status)
            if "the health check of Filings failed" in self.last.vitals.verdict:
                Filings.ended.set()

    queue = MemoryQueue(clock)
    await queue.submit([new_job("filing", {"n": 1}, run="r")])
    await watched(tmp_path, queue, clock, *class_handlers(Filings).values(), watcher=Ending())
    assert Filings.ended.is_set()


def test_a_report_with_all_figures_fits_one_write_to_a_pipe() -> None:
    from longshore.observe.health import Vitals
    from longshore.scrape.proxies.counters import ProxyTotals
    from longshore.worker.status.counters import WorkerCounters
    from longshore.worker.status.worker_figures import ToolFigures

    counters = WorkerCounters()
    for histogram in (counters.attempt_seconds, counters.wait_seconds):
        histogram.buckets = [10**9] * len(histogram.buckets)
    big = 10**12
    vitals = Vitals(uptime=1e9 / 3, claimed=big, completed=big, failed=big, busy_seconds=1e9 / 3, errors_in_a_row=big)
    totals = ProxyTotals(serving=big, resting=big, probation=big, succeeded=big, failed=big)
    tools = ToolFigures(proxies=totals, browsers=100, recycled=dict.fromkeys(("pages", "memory", "broken"), big))
    figures = WorkerFigures(vitals=vitals, counters=counters, tools=tools, held=big, slots=10_000)
    report = WorkerStatus(
        job="j" * 200, trouble="t" * 600, proxies_rest="p" * 200, partitions=("n" * 40,) * 10, figures=figures
    )
    assert len(msgspec.json.encode(report)) < 4096


def test_several_workers_are_added_up() -> None:
    from longshore.observe.health import Vitals
    from longshore.observe.health_report import worker_health
    from longshore.worker.status.counters import WorkerCounters

    vitals = Vitals(uptime=5.0, claimed=3, completed=3, failed=0, busy_seconds=1.0, errors_in_a_row=0)
    each = WorkerFigures(
        vitals=vitals, counters=WorkerCounters(claimed=3, completed=3, returned=2, renewals=4), held=1, slots=8
    )
    waiting = msgspec.structs.replace(each, waits={"tor": "45 %"})
    metrics = Metrics()
    health = [worker_health(name, 1, vitals, 0.5, "") for name in ("worker 0", "worker 1")]
    add_workers(metrics, [each, waiting, each], {"worker 0": each, "worker 1": waiting}, health, 2)
    found = read(metrics)
    assert found["longshore_jobs_claimed_total"] == {(): 9}
    assert found["longshore_attempts_total"][("outcome", "completed"),] == 9
    assert found["longshore_leases_expired_total"][("result", "returned"),] == 6
    assert found["longshore_lease_renewals_total"][("result", "ok"),] == 12
    assert found["longshore_leases_held"] == {(): 2}
    assert found["longshore_worker_waiting"] == {(("on", "tor"), ("worker", "worker 1")): 1}
    assert found["longshore_worker_heartbeat_age_seconds"][("worker", "worker 1"),] == 0.5


def test_a_single_worker_that_reports_no_more_is_not_healthy(tmp_path: Any, clock: ManualClock) -> None:
    from longshore.observe.health import Vitals
    from longshore.worker.status.counters import WorkerCounters

    observed = ObservedWorker("anna", tmp_path, clock)
    assert not observed.health().ready
    vitals = Vitals(uptime=5.0, claimed=3, completed=3, failed=0, busy_seconds=1.0, errors_in_a_row=0)
    observed(WorkerStatus(under_way=1, figures=WorkerFigures(vitals=vitals, counters=WorkerCounters(claimed=3))))
    assert observed.health().healthy
    clock.advance(30.0)
    assert observed.health().detail == "no sign of life for 30 s"
    assert b'longshore_worker_heartbeat_age_seconds{worker="anna"} 30.0' in observed.metrics()


async def test_the_health_of_a_worker_shows_no_password_of_its_queue(tmp_path: Any, clock: ManualClock) -> None:
    from longshore.errors import QueueUnavailableError

    class Refusing(MemoryQueue):
        tries = 0

        async def claim(self, want: Any) -> Any:
            self.tries += 1
            if self.tries < 10:
                raise QueueUnavailableError("postgresql://anna:hunter22@127.0.0.1/jobs refused. Fix: start it.")
            return await super().claim(want)

    queue = Refusing(clock)
    await queue.submit([new_job("page", {"n": 1}, run="r")])
    seen = [each.figures for each in (await watched(tmp_path, queue, clock, page)).seen if each.figures is not None]
    refused = [each for each in seen if not each.ready]
    assert refused
    assert refused[0].vitals.verdict.startswith(
        "the queue is out of reach (postgresql://anna:***@127.0.0.1/jobs refused"
    )
    assert "hunter22" not in repr([(each.vitals, each.waits) for each in seen])
