"""`/metrics` for Prometheus and the number of jobs for a scaler (D8, A19)."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.observe.test_metrics import read

from longshore.errors import QueueUnavailableError
from longshore.job import NewJob, State
from longshore.media.memory import MemoryQueue
from longshore.observe.metrics import Metrics
from longshore.queue import Count, Selection
from longshore.runs.watch.active_workers import ActiveWorkers
from longshore.runs.watch.blockers import Blockers
from longshore.server.auth.keys import Scope
from longshore.top.figures import FiguresReader, QueueFigures
from longshore.top.hosts import HostRow
from longshore.top.queue_metrics import MOST_HOSTS, add_queue


async def scraped(api: Any, key: str) -> tuple[int, dict[str, dict[str, float]]]:
    """The status, and the samples by name and label value."""
    url = api.url.removesuffix("/api/v1")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics", headers={"Authorization": f"Bearer {key}"}) as response,
    ):
        text = await response.text()
    found: dict[str, dict[str, float]] = {}
    if response.status == 200:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[",".join(sample.labels.values())] = sample.value
    return response.status, found


async def test_a_scrape_counts_the_jobs_by_state(api: Any) -> None:
    await api.submit("a", "b", "c")
    await api.claim()
    status, found = await scraped(api, api.make(Scope.READ))
    assert status == 200
    assert found["longshore_queue_jobs"] == {"pending": 2, "claimed": 1, "completed": 0, "failed": 0, "cancelled": 0}
    assert found["longshore_queue_up"] == {"": 1}


@pytest.mark.parametrize(("scopes", "status"), [((Scope.WORK,), 403), ((Scope.SUBMIT,), 403), ((Scope.READ,), 200)])
async def test_it_needs_a_key_that_may_read(api: Any, scopes: Any, status: int) -> None:
    assert (await scraped(api, api.make(*scopes)))[0] == status
    assert (await scraped(api, "wrong"))[0] == 401


async def test_a_key_for_one_run_sees_only_its_jobs(api: Any) -> None:
    await api.submit("a", "b", run="mine")
    await api.submit("c", run="other")
    _, found = await scraped(api, api.make(Scope.READ, runs=("mine",)))
    assert found["longshore_queue_jobs"]["pending"] == 2


async def test_scrapes_at_once_read_the_queue_once(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    stats = api.served.queue.stats

    async def counted(run: str | None = None) -> Any:
        reads.append(run)
        return await stats(run)

    monkeypatch.setattr(api.served.queue, "stats", counted)
    key = api.make(Scope.READ)
    await scraped(api, key)
    before = len(reads)
    await scraped(api, key)
    assert (before, len(reads)) == (1, 1)


async def test_a_queue_that_does_not_answer_is_a_figure_too(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = api.make(Scope.READ)
    await api.submit("a")
    await scraped(api, key)

    async def refuses(*_: Any) -> Any:
        raise QueueUnavailableError("refused")

    monkeypatch.setattr(api.served.queue, "stats", refuses)
    api.served.clock.advance(10.0)
    status, found = await scraped(api, key)
    assert status == 200
    assert found["longshore_queue_up"] == {"": 0}
    assert found["longshore_queue_jobs"]["pending"] == 1


async def test_a_scaler_gets_the_jobs_that_are_left_claimed_ones_included(api: Any) -> None:
    await api.submit("a", "b", "c", run="r", kind="page")
    await api.submit("d", run="r", kind="film")
    await api.submit("e", run="other", kind="page")
    await api.claim()
    key = api.make(Scope.READ)
    assert await api.get("/autoscale", key=key) == {"jobs": 5, "pending": 4, "claimed": 1}
    assert (await api.get("/autoscale?run=r", key=key))["jobs"] == 4
    assert (await api.get("/autoscale?kind=page", key=key))["jobs"] == 4
    assert (await api.get("/autoscale?run=r&kind=film", key=key))["jobs"] == 1
    assert (await api.get("/autoscale?run=nothing", key=key))["jobs"] == 0


async def test_the_age_of_the_oldest_pending_job_is_by_the_queues_clock() -> None:
    from longshore.clock import ManualClock

    clock = ManualClock()
    queue = MemoryQueue(clock)
    reader = FiguresReader(queue, None, clock)
    assert (await reader.look()).oldest_pending == 0.0
    later = clock.now() + 1000
    await queue.submit([NewJob(run="r", kind="k", key="later", payload={}, not_before=later)])
    clock.advance(10.0)
    await queue.submit([NewJob(run="r", kind="k", key="now", payload={})])
    clock.advance(30.0)
    assert (await reader.look()).oldest_pending == 30.0
    clock.advance(1000.0)
    assert (await reader.look()).oldest_pending == 1030.0


async def test_without_one_clock_there_is_no_age() -> None:
    from longshore.clock import ManualClock

    clock = ManualClock()

    class SeveralClocks(MemoryQueue):
        traits = msgspec.structs.replace(MemoryQueue.traits, one_clock=False)

    queue = SeveralClocks(clock)
    await queue.submit([NewJob(run="r", kind="k", key="a", payload={})])
    clock.advance(30.0)
    figures = await FiguresReader(queue, None, clock).look()
    assert figures.oldest_pending is None
    metrics = Metrics()
    add_queue(metrics, figures)
    assert "longshore_queue_oldest_pending_seconds" not in read(metrics)
    assert await queue.jobs(Selection(states=frozenset({State.PENDING})))


def figures_with(hosts: tuple[HostRow, ...]) -> QueueFigures:
    """The figures of a queue with these hosts."""
    return QueueFigures(
        run=None,
        count=Count(pending=10),
        lanes=(),
        per_second=0.0,
        spans=(),
        left=None,
        estimate=None,
        being_submitted=False,
        idle=1.0,
        blockers=Blockers(),
        active=ActiveWorkers(),
        untaken=(),
        workers=(),
        workers_known=True,
        hosts=hosts,
        hosts_known=True,
        failures=(),
        failures_known=True,
    )


def test_the_hosts_are_few_and_the_closed_ones_come_first() -> None:
    hosts = tuple(HostRow(host=f"h{n}.org", waiting=1000 - n) for n in range(100))
    closed = HostRow(host="closed.org", waiting=1, closed_for=60.0, refusals=3)
    figures = figures_with((*hosts, closed))
    metrics = Metrics()
    add_queue(metrics, figures)
    found = read(metrics)
    assert len(found["longshore_host_pending_jobs"]) == MOST_HOSTS
    assert found["longshore_host_closed_seconds"][("host", "closed.org"),] == 60
    assert found["longshore_queue_hosts_closed"] == {(): 1}
    assert "longshore_queue_workers" not in found
