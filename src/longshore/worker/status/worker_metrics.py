"""The metrics of workers: sums over all of them, and a few series for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from longshore.observe.health import HEALTHY
from longshore.observe.health_report import WorkerHealth
from longshore.observe.histogram import ATTEMPT_BOUNDS, WAIT_BOUNDS, Histogram
from longshore.observe.metrics import Metrics
from longshore.worker.status.worker_figures import WorkerFigures


def add_workers(
    metrics: Metrics,
    processes: Sequence[WorkerFigures],
    running: Mapping[str, WorkerFigures],
    health: Sequence[WorkerHealth],
    under_way: int,
) -> None:
    """Add the metrics of workers.

    `processes` are the last figures of every process, ended ones included, for the counters; `running` those of the
    workers that run now, by name; `health` has an entry for each worker that should run.
    """
    _add_counters(metrics, processes)
    now = list(running.values())
    metrics.gauge("leases_held", "Jobs claimed and not settled.", sum(each.held for each in now))
    metrics.gauge("attempts_running", "Attempts under way.", under_way)
    metrics.gauge("attempt_slots", "Attempts that may be under way at once.", sum(each.slots for each in now))
    metrics.gauge("browsers", "Browsers that run.", sum(each.tools.browsers for each in now))
    proxies = [each.tools.proxies for each in now if each.tools.proxies is not None]
    metrics.gauges(
        "proxies",
        "Proxies by state; the most that one worker reports.",
        [
            ({"state": state}, max(getattr(each, state) for each in proxies))
            for state in ("serving", "resting", "probation")
            if proxies
        ],
    )
    _add_each(metrics, running, health)


def _add_counters(metrics: Metrics, processes: Sequence[WorkerFigures]) -> None:
    counts = [each.counters for each in processes]
    metrics.counter("jobs_claimed", "Jobs claimed.", sum(each.claimed for each in counts))
    metrics.counters(
        "attempts",
        "Settled attempts by outcome.",
        [
            ({"outcome": outcome}, sum(getattr(each, outcome) for each in counts))
            for outcome in ("completed", "failed", "retried", "snoozed", "released")
        ],
    )
    attempts = _sum([each.attempt_seconds for each in counts], ATTEMPT_BOUNDS)
    metrics.histogram("attempt_seconds", "How long attempts took.", ATTEMPT_BOUNDS, attempts)
    waits = _sum([each.wait_seconds for each in counts], WAIT_BOUNDS)
    metrics.histogram("wait_seconds", "From submission to the first claim.", WAIT_BOUNDS, waits)
    renewals = {"ok": sum(each.renewals for each in counts), "error": sum(each.failed_renewals for each in counts)}
    _add_by(metrics, "lease_renewals", "Renewals of all leases of a worker.", "result", renewals)
    metrics.counter("leases_lost", "Leases lost; their outcomes were discarded.", sum(each.stale for each in counts))
    expired = {"returned": sum(each.returned for each in counts), "failed": sum(each.exhausted for each in counts)}
    _add_by(metrics, "leases_expired", "Expired leases of other workers, taken back.", "result", expired)
    lost = sum(each.lost_races for each in counts)
    metrics.counter("claim_races_lost", "Claims that found the job taken by a faster worker.", lost)
    tools = [each.tools for each in processes]
    metrics.counter("records_kept", "Records of completed attempts.", sum(each.records_kept for each in tools))
    rejected = sum(each.records_rejected for each in tools)
    metrics.counter("records_rejected", "Records of completed attempts that were rejected.", rejected)
    proxies = [each.proxies for each in tools if each.proxies is not None]
    if proxies:
        requests = {"ok": sum(each.succeeded for each in proxies), "failed": sum(each.failed for each in proxies)}
        _add_by(metrics, "proxy_requests", "Requests through proxies.", "result", requests)
    recycled = Counter[str](pages=0, memory=0, broken=0, other=0)
    for each in tools:
        recycled.update(each.recycled)
    _add_by(metrics, "browser_recycles", "Browsers that were replaced.", "reason", recycled)


def _add_by(metrics: Metrics, name: str, meaning: str, label: str, counts: Mapping[str, int]) -> None:
    metrics.counters(name, meaning, [({label: value}, count) for value, count in counts.items()])


def _add_each(metrics: Metrics, running: Mapping[str, WorkerFigures], health: Sequence[WorkerHealth]) -> None:
    ages = [({"worker": h.worker}, h.heartbeat_age_seconds) for h in health if h.heartbeat_age_seconds is not None]
    metrics.gauges("worker_heartbeat_age_seconds", "Seconds since the worker last reported.", ages)
    healthy = [({"worker": each.worker}, float(each.status == HEALTHY)) for each in health]
    metrics.gauges("worker_healthy", "1 if the worker is healthy.", healthy)
    waits = [({"worker": name, "on": on}, 1.0) for name, each in running.items() for on in each.waits]
    metrics.gauges("worker_waiting", "1 while the worker can begin nothing, by what it waits for.", waits)
    memory = [({"worker": each.worker}, float(each.memory_bytes)) for each in health]
    metrics.gauges("worker_memory_bytes", "Memory of the worker.", memory)
    failures = [({"worker": each.worker}, float(each.consecutive_failures)) for each in health]
    metrics.gauges("worker_consecutive_failures", "Attempts that failed in a row.", failures)
    uptimes = [({"worker": each.worker}, each.uptime_seconds) for each in health]
    metrics.gauges("worker_uptime_seconds", "Seconds since the worker started.", uptimes)


def _sum(histograms: Sequence[Histogram], bounds: Sequence[float]) -> Histogram:
    return reduce(Histogram.plus, histograms, Histogram.of(bounds))
