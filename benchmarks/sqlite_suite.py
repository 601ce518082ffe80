"""SQLite: the medium beside a bare loop at the same durability, and beside the peers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import sqlite_latency, sqlite_medium, sqlite_peers, sqlite_raw, sqlite_worker
from benchmarks.measure import Figure, by_turns, rate, scratch

JOBS = 100_000
PEER_JOBS = 2_000
FEW, MANY, SAMPLE = 10_000, 1_000_000, 8_000
SYNCHRONOUS = "FULL"
"""What the medium uses, so the bare loop does too."""


def figures() -> list[Figure]:
    """Everything there is to know, in about five minutes."""
    return [*_submit(), *_drain(), *_backlog(), *_idle(), *_memory()]


def _submit() -> list[Figure]:
    contestants = {"bare loop": _raw_submit, "longshore": _our_submit}
    for name in sqlite_peers.installed():
        contestants[name] = partial(_peer_submit, name)
    return _table("submit", by_turns(contestants))


def _drain() -> list[Figure]:
    contestants = {
        "bare loop": _raw_drain,
        "longshore, one call at a time": _our_drain_in_sequence,
        "longshore, claiming while settling": _our_drain,
        "longshore, whole workers": _our_workers,
    }
    for name in sqlite_peers.installed():
        contestants[name] = partial(_peer_drain, name)
    return _table("drain", by_turns(contestants))


def _table(task: str, medians: dict[str, float]) -> list[Figure]:
    bare = medians["bare loop"]
    return [Figure(f"{task}: {name}", value, "jobs/s", "bare loop", value / bare) for name, value in medians.items()]


def _backlog() -> list[Figure]:
    with scratch() as folder:
        few, many = folder / "few.db", folder / "many.db"
        sqlite_medium.submit(many, MANY)
        medians = by_turns({"few": partial(_sample, few, FEW), "many": partial(_sample, many, 0)})
    return [
        Figure(f"drain with {FEW:,} pending", medians["few"], "jobs/s"),
        Figure(f"drain with {MANY:,} pending", medians["many"], "jobs/s", f"{FEW:,}", medians["many"] / medians["few"]),
    ]


def _sample(file: Path, fill: int) -> float:
    """The rate over the next jobs of a queue, after it was topped up."""
    if fill:
        file.unlink(missing_ok=True)
        sqlite_medium.submit(file, fill)
    return rate(sqlite_medium.drain, file, SAMPLE // 2)


def _idle() -> list[Figure]:
    with scratch() as folder:
        waited = sqlite_latency.latency(folder / "queue.db")
    with scratch() as folder:
        cost = sqlite_latency.idle_cost(folder / "queue.db")
    return [
        Figure("submit in one process to lease in another, median", waited, "ms"),
        Figure("an idle waiter", cost, "% of a core"),
    ]


def _raw_submit() -> float:
    with scratch() as folder:
        sqlite_raw.create(folder / "raw.db", SYNCHRONOUS)
        return sqlite_raw.submit(folder / "raw.db", SYNCHRONOUS, JOBS)


def _our_submit() -> float:
    with scratch() as folder:
        return sqlite_medium.submit(folder / "queue.db", JOBS)


def _peer_submit(name: str) -> float:
    with scratch() as folder:
        return sqlite_peers.submit(name, folder / "peer.db", PEER_JOBS)


def _raw_drain() -> float:
    with scratch() as folder:
        sqlite_raw.create(folder / "raw.db", SYNCHRONOUS)
        sqlite_raw.submit(folder / "raw.db", SYNCHRONOUS, JOBS)
        return rate(sqlite_raw.drain, folder / "raw.db", SYNCHRONOUS)


def _our_drain() -> float:
    with scratch() as folder:
        sqlite_medium.submit(folder / "queue.db", JOBS)
        return rate(sqlite_medium.drain, folder / "queue.db")


def _our_drain_in_sequence() -> float:
    with scratch() as folder:
        sqlite_medium.submit(folder / "queue.db", JOBS)
        return rate(sqlite_medium.drain_in_sequence, folder / "queue.db")


def _our_workers() -> float:
    with scratch() as folder:
        sqlite_medium.submit(folder / "queue.db", JOBS)
        handlers = sqlite_worker.handler_file(folder)
        return rate(sqlite_worker.drain, folder / "queue.db", handlers, folder / "log")


def _memory() -> list[Figure]:
    with scratch() as folder:
        sqlite_medium.submit(folder / "queue.db", MANY)
        handlers = sqlite_worker.handler_file(folder)
        early, peak = sqlite_worker.growth(folder / "queue.db", handlers, folder / "log")
    return [
        Figure("memory of a worker after a tenth of 1,000,000 jobs", early, "MB"),
        Figure("memory of a worker at its peak", peak, "MB", "after a tenth", peak / early),
    ]


def _peer_drain(name: str) -> float:
    with scratch() as folder:
        sqlite_peers.submit(name, folder / "peer.db", PEER_JOBS)
        return rate(sqlite_peers.drain, name, folder / "peer.db", processes=sqlite_peers.processes(name))
