"""The figures of a queue as metrics. It reads nothing: the figures are those that a view has read."""

from __future__ import annotations

from longshore.job import State
from longshore.observe.metrics import Metrics
from longshore.runs.control.pause import EVERYTHING
from longshore.top.figures import QueueFigures
from longshore.top.hosts import HostRow

MOST_HOSTS = 20
"""Hosts with series of their own: a crawl may know a million."""


def add_queue(metrics: Metrics, figures: QueueFigures) -> None:
    """Add the metrics of a queue."""
    states = [({"state": state.value}, getattr(figures.count, state.value)) for state in State]
    metrics.gauges("queue_jobs", "Jobs by state.", states)
    if figures.oldest_pending is not None:
        meaning = "How long the oldest pending job has been waiting, by the queue's clock."
        metrics.gauge("queue_oldest_pending_seconds", meaning, figures.oldest_pending)
    metrics.gauge("queue_idle_seconds", "Seconds since a job was last seen to finish.", figures.idle)
    metrics.gauge("queue_finished_per_second", "Jobs that finish a second at present.", figures.per_second)
    if figures.active.workers is not None:
        metrics.gauge("queue_workers", "Workers that are present.", figures.active.workers)
    paused = figures.blockers.paused
    metrics.gauge("queue_paused", "1 while everything is paused.", float(EVERYTHING in paused))
    metrics.gauge("queue_paused_runs", "Runs that are paused.", len(paused.keys() - {EVERYTHING}))
    unattended = "Kinds with pending jobs that no present worker takes."
    metrics.gauge("queue_kinds_without_worker", unattended, len(figures.untaken))
    closed = [host for host in figures.hosts if host.closed_for > 0]
    metrics.gauge("queue_hosts_closed", "Hosts with jobs that take no requests at present.", len(closed))
    _add_hosts(metrics, sorted(figures.hosts, key=_urgency)[:MOST_HOSTS])


def _add_hosts(metrics: Metrics, hosts: list[HostRow]) -> None:
    named = [({"host": host.host}, host) for host in hosts]
    metrics.gauges("host_pending_jobs", "Pending jobs of a host.", [(label, host.waiting) for label, host in named])
    rates = [(label, host.rate) for label, host in named if host.rate is not None]
    metrics.gauges("host_requests_per_second", "The rate at which all workers may ask a host.", rates)
    closed = [(label, host.closed_for) for label, host in named]
    metrics.gauges("host_closed_seconds", "Seconds until a closed host is asked again.", closed)
    refusals = [(label, host.refusals) for label, host in named]
    metrics.gauges("host_refusals", "Answers that refused a request, as far as they are remembered.", refusals)


def _urgency(host: HostRow) -> tuple[bool, int, str]:
    return host.closed_for <= 0, -host.waiting, host.host
