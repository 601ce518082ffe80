"""PostgreSQL: ours beside a bare loop and the peers on the same server, and in harder surroundings.

The server is started for the run, with fsync on. Every contestant has a fresh database at every turn, vacuumed,
analyzed and written out before its clock runs.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import asyncpg
from tests.services.postgres import PostgresServer

from benchmarks import (
    postgres_graphile,
    postgres_latency,
    postgres_medium,
    postgres_peers,
    postgres_pgmq,
    postgres_raw,
    postgres_workers,
)
from benchmarks.measure import Figure, Settled, by_turns, shared_rate, steady_rate, together
from benchmarks.postgres_database import fresh_database, settle_down, start_server

UNTIL_DONE = ("--run", "bench", "--until-done")
BEST = ("--batch-size", "500", "--concurrency", "32")
"""Found by trying batches of 100 to 1,000, with 8 to 64 at once."""
PYTHON_PEERS = (
    (postgres_peers.PGQUEUER, "pgqueuer, batches of 100", 100, 3),
    (postgres_peers.PGQUEUER, "pgqueuer, batches of 500", 500, 3),
    (postgres_peers.PROCRASTINATE, "procrastinate, 20 at once", 20, 50),
)
"""Package, title, how many at once, and by how much fewer jobs it gets than the fast ones."""
PARTITIONS = 10_000
BEFORE_SECONDS, HELD_SECONDS, STRETCH = 30.0, 180.0, 10.0


def submit(share: float) -> list[Figure]:
    """5,000 jobs a call with payloads of 200 bytes, by one process.

    Both begin with the same Python values, a key and a dictionary for each job, and both make JSON of the dictionary
    while the clock runs; "from ready JSON" is spared that. The bare COPY writes one table with a unique key and the
    index that claims need.
    """
    jobs = _at_least(5_000, 200_000 * share)

    def bare(url: str, *, unique: bool = True, encoded: bool = False) -> float:
        return postgres_raw.fill(url, jobs, unique=unique, encoded=encoded)

    with start_server() as server:
        contestants = {
            "bare COPY": partial(_in_fresh, server, bare),
            "bare COPY from ready JSON": partial(_in_fresh, server, partial(bare, encoded=True)),
            "bare COPY without a unique key": partial(_in_fresh, server, partial(bare, unique=False)),
            "longshore": partial(_in_fresh, server, lambda url: postgres_medium.submit(url, jobs)),
        }
        return _compared("submit", by_turns(contestants, rounds=5), "bare COPY")


def drain(share: float) -> list[Figure]:
    """Two processes, no-op jobs with payloads of 200 bytes.

    The clock runs from when the second process had settled something until all was settled, so nobody's start-up
    counts. When a job was settled is taken from what each keeps anyway: Longshore's workers, pgqueuer and procrastinate
    note it in the database (the latter two do not say by which process; they begin at a common signal), the loops look
    at the clock after each settlement, and graphile-worker says when a task has ended, shortly before it is deleted.
    graphile-worker is set up as its page on performance does: 24 at once, a local queue of 500, completion in batches.
    What our workers do best with, and pgqueuer's batches of 500, were found by trying. Slow ones get fewer jobs.
    """
    with start_server() as server, ExitStack() as stack:
        jobs = _at_least(3_000, 150_000 * share)
        contestants: dict[str, Callable[[], float]] = {}
        for batch in (100, 500):
            contestants[f"bare loop, batches of {batch}"] = partial(_in_fresh, server, partial(_raw, jobs, batch))
        workers = {
            "two `longshore work`, as they come (batches of 100)": (),
            f"two `longshore work {' '.join(BEST)}`": BEST,
        }
        for name, options in workers.items():
            contestants[name] = partial(_in_fresh, server, partial(_workers, jobs, options))
        for batch in (100, 500):
            contestant = partial(_in_fresh, server, partial(_medium, jobs, batch))
            contestants[f"longshore, the medium alone, batches of {batch}"] = contestant
        absent: list[Figure] = []
        if postgres_pgmq.sql_file() is None:
            absent.append(Figure("drain: pgmq", None, postgres_pgmq.MISSING))
        else:
            for batch, how in ((100, "archive"), (100, "delete"), (500, "archive")):
                contestant = partial(_in_fresh, server, partial(_pgmq, jobs, batch, how))
                contestants[f"pgmq, batches of {batch}, then {how}"] = contestant
        if postgres_graphile.available():
            node = stack.enter_context(postgres_graphile.installed())
            contestants["graphile-worker"] = partial(_in_fresh, server, partial(_graphile, node, jobs))
        else:
            absent.append(Figure("drain: graphile-worker", None, postgres_graphile.MISSING))
        for name, title, at_once, fewer in PYTHON_PEERS:
            if postgres_peers.installed(name):
                contestants[title] = partial(_in_fresh, server, partial(_peer, name, jobs // fewer, at_once))
            else:
                absent.append(Figure(f"drain: {title}", None, postgres_peers.missing(name)))
        return [*_compared("drain", by_turns(contestants), "bare loop, batches of 100"), *absent]


def latency(share: float) -> list[Figure]:
    """From just before the call that submits a single job to the first line of its handler, in another process.

    One idle worker of each, all at once, and a job for one after the other, so each has been idle for a tenth of a
    second or more. The bare loop listens on one connection and claims on another. graphile-worker is without its local
    queue here.
    """
    with start_server() as server, ExitStack() as stack:
        node = stack.enter_context(postgres_graphile.installed()) if postgres_graphile.available() else None
        waits = postgres_latency.waits(server, _at_least(20, 400 * share), node)
    found = []
    for title, place in (("p50", 0.5), ("p99", 0.99)):
        at = {name: each[int(len(each) * place)] for name, each in waits.items()}
        bare = at[postgres_latency.RAW]
        found += [Figure(f"latency, {title}: {n}", v, "ms", postgres_latency.RAW, v / bare) for n, v in at.items()]
    return found


def surroundings(share: float) -> list[Figure]:
    """The next jobs of a queue, in batches of 100 by two processes, by what stands beside them.

    The medium alone over 9,000 jobs at a time, nine turns; and two whole `longshore work` over 30,000, five turns,
    counted while both are at work and after the first 1,000 of each, in which a worker finds its pace. That takes more
    than 10,000 jobs, so the least they are given is 40,000. The finished jobs were really worked off. The jobs of the
    five partitions stand behind those of all the others.
    """
    turns, whole_turns = (9, 5) if share == 1 else (2, 1)
    sample, whole = 9_000, 30_000
    taken = turns * sample + whole_turns * whole
    few, some, many = 10_000, 40_000, _at_least(20_000, 1_000_000 * share)
    five = [str(n) for n in range(5)]
    with start_server() as server, ExitStack() as stack:
        small, middling, large, old, parts = (stack.enter_context(fresh_database(server)) for _ in range(5))
        postgres_medium.submit(small, few)
        postgres_medium.submit(middling, some)
        postgres_medium.fill(large, many + taken)
        postgres_medium.fill(old, many)
        together(postgres_medium.drain, old, 500)
        postgres_medium.submit(old, some, first=FURTHER)
        postgres_medium.submit(parts, taken + some, partitions=PARTITIONS)
        postgres_medium.submit(parts, taken + some, partitions=len(five), first=FURTHER)
        for place in (small, middling, large, old, parts):
            settle_down(place)
        topped_up = itertools.count(2 * FURTHER, whole)

        def medium(place: str, partitions: list[str] | None = None) -> float:
            found = together(postgres_medium.drain, place, 100, sample // 2, partitions)
            if place in (small, old):
                postgres_medium.submit(place, sample, first=next(topped_up))
            return _rate(found)

        def workers(place: str, *options: str) -> float:
            found = postgres_workers.drained(place, "--run", "bench", "--max-work", str(whole // 2), *options)
            if place in (middling, old):
                postgres_medium.submit(place, whole, first=next(topped_up))
            return shared_rate(found, after=1_000)

        base, whole_base = f"{few:,} pending", f"{some:,} pending"
        finished = f"{some:,} pending, {many:,} finished"
        alone = {
            base: partial(medium, small),
            f"{many:,} pending": partial(medium, large),
            finished: partial(medium, old),
            f"{PARTITIONS:,} partitions": partial(medium, parts),
            f"5 of {PARTITIONS:,} partitions": partial(medium, parts, five),
        }
        with_workers = {
            whole_base: partial(workers, middling),
            f"{many:,} pending": partial(workers, large),
            finished: partial(workers, old),
            f"{PARTITIONS:,} partitions": partial(workers, parts),
            f"5 of {PARTITIONS:,} partitions": partial(workers, parts, "--partitions", ",".join(five)),
        }
        return [
            *_compared("the medium alone", by_turns(alone, rounds=turns), base),
            *_compared("two `longshore work`", by_turns(with_workers, rounds=whole_turns), whole_base),
        ]


def snapshot(share: float) -> list[Figure]:
    """Two whole `longshore work --batch-size 500 --concurrency 32` at full load, all work submitted beforehand.

    At second 0 somebody opens a transaction, looks, and keeps it open to the end, so that nothing deleted since can be
    removed. Each line is the rate over the ten seconds that begin there.
    """
    before, held = BEFORE_SECONDS, _at_least(20, HELD_SECONDS * share)
    with start_server() as server, fresh_database(server) as url:
        jobs = _at_least(800_000, HELD_JOBS * share)
        postgres_medium.fill(url, jobs)
        settle_down(url)
        with postgres_workers.working(url, "--run", "bench", *BEST):
            since = asyncio.run(_hold(url, before, held))
        curve = postgres_workers.curve(url, since, STRETCH)
    stretches = range(round((before + held) / STRETCH))
    # In the stretch in which the last job was settled the work had already run out.
    full = [n for n in stretches if sum(curve.values()) < jobs or n < max(curve)]
    rates = {n: curve.get(n, 0) / STRETCH for n in full}
    quiet = round(before / STRETCH)
    usual = statistics.mean(rates[n] for n in full if n < quiet)
    found = []
    for n in stretches:
        name = f"held snapshot, {round(n * STRETCH - before):+} s"
        if n in rates:
            found.append(Figure(name, rates[n], "jobs/s", "before", rates[n] / usual))
        else:
            found.append(Figure(name, None, "the work had run out"))
    during = [rates[n] for n in full if n >= quiet]
    for title, take in (("the mean", statistics.mean), ("the least", min)):
        if during:
            found.append(Figure(f"held snapshot, {title}", take(during), "jobs/s", "before", take(during) / usual))
    return found


HELD_JOBS = 12_000_000
"""Enough for the whole time at 57,000 a second; where it is not, the table says from when on."""
FURTHER = 100_000_000
"""Numbers of jobs that no other submission has reached."""

PARTS = {"submit": submit, "drain": drain, "latency": latency, "surroundings": surroundings, "snapshot": snapshot}
"""Each by itself, with a server of its own. The argument is the share of the whole size, for a trial."""


async def _hold(url: str, before: float, held: float) -> float:
    """Wait, hold a snapshot, and say when, by the database's clock, the waiting began."""
    connection = await asyncpg.connect(url)
    # The workers have been let go this moment; the first jobs come when they have opened the queue.
    while not await connection.fetchval("select exists (select from longshore.done)"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    since = float(await connection.fetchval("select extract(epoch from clock_timestamp())::float8"))
    await asyncio.sleep(before)
    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetchval("select count(*) from longshore.worker")
        await asyncio.sleep(held)
    await connection.close()
    return since


def _in_fresh(server: PostgresServer, contest: Callable[[str], float]) -> float:
    with fresh_database(server) as url:
        return contest(url)


def _raw(jobs: int, batch: int, url: str) -> float:
    postgres_raw.fill(url, jobs, unique=False)
    settle_down(url)
    return _rate(together(postgres_raw.drain, url, batch))


def _medium(jobs: int, batch: int, url: str) -> float:
    postgres_medium.submit(url, jobs)
    settle_down(url)
    return _rate(together(postgres_medium.drain, url, batch))


def _workers(jobs: int, options: tuple[str, ...], url: str) -> float:
    postgres_medium.submit(url, jobs)
    settle_down(url)
    return steady_rate(postgres_workers.drained(url, *UNTIL_DONE, *options))


def _pgmq(jobs: int, batch: int, how: str, url: str) -> float:
    postgres_pgmq.fill(url, jobs)
    settle_down(url)
    return _rate(together(postgres_pgmq.drain, url, batch, how))


def _graphile(node: Path, jobs: int, url: str) -> float:
    postgres_graphile.fill(node, url, jobs)
    settle_down(url)
    return steady_rate(postgres_graphile.drained(node, url))


def _peer(name: str, jobs: int, at_once: int, url: str) -> float:
    postgres_peers.fill(name, url, jobs)
    settle_down(url)
    return steady_rate(postgres_peers.drained(name, url, at_once), workers=1)


def _rate(answers: list[list[Settled]]) -> float:
    return steady_rate([entry for answer in answers for entry in answer])


def _compared(task: str, medians: dict[str, float], base: str) -> list[Figure]:
    return [Figure(f"{task}: {n}", value, "jobs/s", base, value / medians[base]) for n, value in medians.items()]


def _at_least(least: int, number: float) -> int:
    return max(least, round(number))
