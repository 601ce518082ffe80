"""PostgreSQL: the medium beside a bare loop on the same server, and itself in harder surroundings.

The server is started for the run, with fsync on and the settings it comes with, but for more room for its log.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
from functools import partial

import asyncpg
from tests.services.postgres import PostgresServer

from benchmarks import postgres_medium, postgres_peers, postgres_raw
from benchmarks.measure import SPAWN, Figure, by_turns, rate
from longshore.media.postgres.location import locate

JOBS = 60_000
PEER_JOBS = 3_000
FEW, MANY, SAMPLE = 10_000, 1_000_000, 8_000
PARTITIONS = 10_000
BATCHES = (100, 500)
HELD_SECONDS, BEFORE_SECONDS, STRETCH = 180.0, 30.0, 15.0
HELD_JOBS = 6_000_000
"""Enough for the whole time; where a machine is faster the curve ends in zeros, which say that the work ran out."""


def figures() -> list[Figure]:
    """Everything there is to know, in about ten minutes."""
    settings = {"max_wal_size": "'4GB'", "shared_buffers": "'512MB'"}
    with PostgresServer(fsync=True, settings=settings) as server:
        url = f"{server.url}?schema=bench"
        found = [*_submit(server.url, url), *_drain(server.url, url), *_surroundings(url), *_latency(url)]
        return [*found, *_held_snapshot(url)]


def _submit(bare: str, url: str) -> list[Figure]:
    def ours() -> float:
        postgres_medium.clear(url)
        return postgres_medium.submit(url, JOBS)

    medians = by_turns(
        {
            "bare COPY, unique key": partial(postgres_raw.fill, bare, JOBS, unique=True),
            "bare COPY, no key": partial(postgres_raw.fill, bare, JOBS, unique=False),
            "longshore": ours,
        }
    )
    copy = medians["bare COPY, unique key"]
    return [Figure(f"submit: {name}", value, "jobs/s", "bare COPY", value / copy) for name, value in medians.items()]


def _drain(bare: str, url: str) -> list[Figure]:
    def raw(batch: int) -> float:
        postgres_raw.fill(bare, JOBS, unique=False)
        return rate(postgres_raw.drain, bare, batch)

    def ours(batch: int) -> float:
        postgres_medium.clear(url)
        postgres_medium.submit(url, JOBS)
        postgres_medium.settle_down(url)
        return rate(postgres_medium.drain, url, batch)

    contestants = {f"bare loop, batches of {batch}": partial(raw, batch) for batch in BATCHES}
    contestants |= {f"longshore, batches of {batch}": partial(ours, batch) for batch in BATCHES}
    for name in postgres_peers.installed():
        contestants[name] = partial(postgres_peers.drained, name, bare, PEER_JOBS)
    medians = by_turns(contestants)
    loop = medians["bare loop, batches of 100"]
    return [
        Figure(f"drain, two processes: {name}", value, "jobs/s", "bare loop of 100", value / loop)
        for name, value in medians.items()
    ]


def _surroundings(url: str) -> list[Figure]:
    """The rate over the next jobs, with few beside them, and with very many."""
    places = {
        f"{FEW:,} pending": (f"{url}_few", FEW, 1, 0),
        f"{MANY:,} pending": (f"{url}_many", MANY, 1, 0),
        f"{FEW:,} pending and {MANY:,} finished": (f"{url}_old", 3 * FEW, 1, MANY),
        f"{3 * FEW:,} pending in {PARTITIONS:,} partitions": (f"{url}_parts", 3 * FEW, PARTITIONS, 0),
    }
    for place, jobs, partitions, old in places.values():
        postgres_medium.clear(place)
        postgres_medium.submit(place, jobs, partitions=partitions)
        if old:
            postgres_medium.finished(place, old)
        postgres_medium.settle_down(place)
    topped_up = iter(range(2 * MANY, 100 * MANY, FEW))

    def sample(place: str, *, top_up: bool) -> float:
        if top_up:
            postgres_medium.submit(place, FEW, first=next(topped_up))
        return rate(postgres_medium.drain, place, 500, SAMPLE // 2)

    contestants = {name: partial(sample, place, top_up=jobs == FEW) for name, (place, jobs, _, _) in places.items()}
    some = tuple(str(n) for n in range(5))
    medians = by_turns(contestants)
    few = medians[f"{FEW:,} pending"]
    found = [
        Figure(f"drain with {name}", value, "jobs/s", f"{FEW:,} pending", value / few)
        for name, value in medians.items()
    ]
    # Half a million jobs of other partitions stand in front of what these five have.
    postgres_medium.submit(f"{url}_parts", MANY // 2, partitions=PARTITIONS, first=MANY)
    postgres_medium.submit(f"{url}_parts", 3 * FEW, partitions=len(some), first=2 * MANY)
    five = rate(postgres_medium.drain, f"{url}_parts", 100, 1 << 62, some)
    return [*found, Figure(f"drain of 5 of {PARTITIONS:,} partitions", five, "jobs/s", f"{FEW:,} pending", five / few)]


def _latency(url: str) -> list[Figure]:
    postgres_medium.clear(url)
    waits = postgres_medium.latency(url)
    return [
        Figure("submit to lease, an idle waiter, median", statistics.median(waits) * 1000, "ms"),
        Figure("submit to lease, an idle waiter, 99 of 100", waits[int(len(waits) * 0.99)] * 1000, "ms"),
    ]


def _held_snapshot(url: str) -> list[Figure]:
    """Two processes at full load; after a while somebody opens a transaction, looks, and goes to lunch."""
    postgres_medium.clear(url)
    whole = BEFORE_SECONDS + HELD_SECONDS
    postgres_medium.submit(url, HELD_JOBS)
    postgres_medium.settle_down(url)
    with SPAWN.Pool(2) as pool:
        working = [pool.apply_async(postgres_medium.drain_for, (url, 500, whole, STRETCH)) for _ in range(2)]
        holding = threading.Thread(target=lambda: asyncio.run(_hold(url, BEFORE_SECONDS, HELD_SECONDS)))
        holding.start()
        stretches = [work.get() for work in working]
        holding.join()
    rates = [sum(both) / STRETCH for both in zip(*stretches, strict=True)]
    quiet = round(BEFORE_SECONDS / STRETCH)
    before = statistics.mean(rates[:quiet])
    return [
        Figure(f"held snapshot, {round(n * STRETCH - BEFORE_SECONDS):+} s", each, "jobs/s", "before", each / before)
        for n, each in enumerate(rates)
    ]


async def _hold(url: str, after: float, seconds: float) -> None:
    await asyncio.sleep(after)
    connection = await asyncpg.connect(locate(url).dsn)
    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetchval("select 1")
        await asyncio.sleep(seconds)
    await connection.close()
