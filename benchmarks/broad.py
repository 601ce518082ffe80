"""Broad crawls: what claims and whole workers cost with very many hosts, in the extreme one for each job.

Hosts take turns in claims, so a claim of a hundred jobs looks for a hundred hosts where a crawl is broad.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path

import psutil
from tests.services.postgres import PostgresServer

from benchmarks import broad_crawl, postgres_workers, sqlite_worker
from benchmarks.measure import PAYLOAD, Figure, by_turns, rate, scratch, steady_rate
from benchmarks.postgres_database import fresh_database, settle_down, start_server
from longshore.job import NewJob, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.queue import Queue

SPREADS = {"one host": 1, "ten hosts": 10, "1,000 hosts": 1000, "a host for each job": 1 << 62}
BASE = "one host"
CLOSED = frozenset(f"closed-{n}.example" for n in range(50))
SAMPLES = {1: 300, 10: 150, 100: 50}
"""How many jobs a claim asks for, and how many such claims are one turn."""
SUBMIT_BATCH = 5000

Processor = Callable[[], float]
"""Seconds of processor time spent so far by all who take part in a claim."""


def sqlite(share: float) -> list[Figure]:
    """Claims on SQLite, with 100,000 pending: processor time of the process, which is all there is."""
    with scratch() as folder:
        numbers = count()
        return _claims(share, 100_000, lambda: f"sqlite:///{folder}/{next(numbers)}.db", time.process_time)


def postgres(share: float) -> list[Figure]:
    """Claims on PostgreSQL, with 100,000 pending: processor time of the client and the server together."""
    with start_server() as server, ExitStack() as stack:
        return _claims(
            share,
            100_000,
            lambda: stack.enter_context(fresh_database(server)),
            lambda: time.process_time() + _spent_by(server),
            settle_down,
        )


def directory(share: float) -> list[Figure]:
    """Claims on a directory, with 25,000 pending: it takes long to fill. Processor time, the system's for it included.

    Where the folder for temporary files is on a disk, waiting for it to sync does not count.
    """
    with scratch() as folder:
        numbers = count()
        return _claims(share, 25_000, lambda: f"dir://{folder}/{next(numbers)}", time.process_time)


def _claims(
    share: float, pending: int, place: Callable[[], str], spent: Processor, ready: Callable[[str], None] | None = None
) -> list[Figure]:
    jobs = max(15_000, round(pending * share))
    with asyncio.Runner() as runner:
        queues: dict[tuple[frozenset[str], str], Queue] = {}
        for closed in (frozenset[str](), CLOSED):
            for spread, hosts in SPREADS.items():
                url = place()
                queues[closed, spread] = queue = runner.run(open_queue(url))
                runner.run(_fill(queue, jobs, hosts, closed))
                if ready:
                    ready(url)
        figures = []
        for limit, claims in SAMPLES.items():
            contestants = {}
            for (closed, spread), queue in queues.items():
                name = f"{spread}, {len(closed)} closed hosts in front" if closed else spread
                contestants[name] = partial(_cost, runner, queue, limit, claims, closed, spent)
            medians = by_turns(contestants, rounds=3 if share == 1 else 1)
            for name, value in medians.items():
                ratio = value / medians[BASE]
                figures.append(Figure(f"a claim of {limit}: {name}", value * 1000, "ms", BASE, ratio))
        for queue in queues.values():
            runner.run(queue.close())
    return figures


def _cost(
    runner: asyncio.Runner, queue: Queue, limit: int, claims: int, closed: frozenset[str], spent: Processor
) -> float:
    return runner.run(_claim(queue, limit, claims, closed, spent))


async def _claim(queue: Queue, limit: int, claims: int, closed: frozenset[str], spent: Processor) -> float:
    want = Want(worker=WorkerId.new(), limit=limit, without_hosts=closed)
    begin = spent()
    for _ in range(claims):
        leases = await queue.claim(want)
        if len(leases) != limit:
            raise RuntimeError(f"A claim of {limit} found {len(leases)}: too few jobs to measure this with")
    return (spent() - begin) / claims


async def _fill(queue: Queue, jobs: int, hosts: int, closed: frozenset[str]) -> None:
    names = [host for host in sorted(closed) for _ in range(200)]
    names += [f"{number % hosts}.example" for number in range(jobs)]
    for first in range(0, len(names), SUBMIT_BATCH):
        part = names[first : first + SUBMIT_BATCH]
        await queue.submit([_job(number, host) for number, host in enumerate(part, first)])


def _job(number: int, host: str) -> NewJob:
    key = sha256(b"%d" % number).hexdigest()
    return new_job("page", {**PAYLOAD, "n": number}, run="bench", key=key, host=host)


def _spent_by(server: PostgresServer) -> float:
    """Processor time of all processes of the server. It is counted in hundredths of a second."""
    times = [process.cpu_times() for process in psutil.Process(server.pid).children()]
    return float(sum(each.user + each.system for each in times))


def workers(share: float) -> list[Figure]:
    """Two whole workers, no-op jobs, batches of 100: jobs a second on SQLite and on PostgreSQL."""
    jobs = max(10_000, round(60_000 * share))
    rounds = 3 if share == 1 else 1
    spreads = {name: SPREADS[name] for name in (BASE, "a host for each job")}
    contestants = {f"SQLite, {name}": partial(_sqlite_workers, jobs, hosts) for name, hosts in spreads.items()}
    with start_server() as server:
        for name, hosts in spreads.items():
            contestants[f"PostgreSQL, {name}"] = partial(_postgres_workers, server, jobs, hosts)
        medians = by_turns(contestants, rounds=rounds)
    figures = []
    for name, value in medians.items():
        base = f"{name.partition(',')[0]}, {BASE}"
        figures.append(Figure(f"two workers: {name}", value, "jobs/s", BASE, value / medians[base]))
    return figures


def memory(share: float) -> list[Figure]:
    """The memory of one worker on SQLite, no-op jobs with a host each: after a tenth of them, and at its peak."""
    jobs = max(20_000, round(200_000 * share))
    with scratch() as folder:
        _filled(folder, jobs, jobs)
        early, peak = sqlite_worker.growth(folder / "queue.db", sqlite_worker.handler_file(folder), folder / "log")
    return [
        Figure(f"memory of a worker after a tenth of {jobs:,} jobs with a host each", early, "MB"),
        Figure("memory of a worker at its peak", peak, "MB", "after a tenth", peak / early),
    ]


def crawl(share: float) -> list[Figure]:
    """One worker, 64 at once, small pages of a site under many loopback addresses, whose robots.txt is asked for too.

    Every host answers all it is asked, and may be asked at once as fast as one likes: what is measured is the worker.
    """
    pages = max(2_000, round(20_000 * share))
    figures = []
    with scratch() as folder, broad_crawl.site() as port:
        base = None
        for hosts in (1, pages // 10, pages):
            seen = broad_crawl.crawl(folder / str(hosts), port, pages, hosts)
            base = base or seen
            name = f"{pages:,} pages of {hosts:,} host{'s' if hosts > 1 else ''}"
            figures += [
                Figure(name, seen.rate, "pages/s", BASE, seen.rate / base.rate),
                Figure(f"{name}: the worker's processor time", seen.cost, "ms a page", BASE, seen.cost / base.cost),
                Figure(
                    f"{name}: its memory in the second half", seen.late, "MB", "the first half", seen.late / seen.early
                ),
                Figure(f"{name}: notes on the pace of hosts", seen.notes, ""),
            ]
    return figures


def _sqlite_workers(jobs: int, hosts: int) -> float:
    with scratch() as folder:
        _filled(folder, jobs, hosts)
        return rate(sqlite_worker.drain, folder / "queue.db", sqlite_worker.handler_file(folder), folder / "log")


def _postgres_workers(server: PostgresServer, jobs: int, hosts: int) -> float:
    with fresh_database(server) as url:
        asyncio.run(_fill_anew(url, jobs, hosts))
        settle_down(url)
        return steady_rate(postgres_workers.drained(url, "--run", "bench", "--until-done"))


def _filled(folder: Path, jobs: int, hosts: int) -> None:
    asyncio.run(_fill_anew(f"sqlite:///{folder}/queue.db", jobs, hosts))


async def _fill_anew(url: str, jobs: int, hosts: int) -> None:
    queue = await open_queue(url)
    await _fill(queue, jobs, hosts, frozenset())
    await queue.close()


PARTS = {
    "sqlite": sqlite,
    "postgres": postgres,
    "directory": directory,
    "workers": workers,
    "memory": memory,
    "crawl": crawl,
}
