"""How much of what a site allows is used, and how many answers are refusals: `python -m benchmarks.pace`.

A site in a process of its own limits requests in one of several ways, and keeps the log that is judged. It is asked by
one process, and by four that share the pace through PostgreSQL (or, with --sqlite, a file).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from tests.pacing.worlds.limiters import (
    Banning,
    Bucket,
    Changing,
    FixedWindow,
    HostLimiter,
    SlidingLog,
    Unbounded,
)

from benchmarks.measure import SPAWN, scratch
from longshore.extensions.find import require
from longshore.extensions.shared_state import SharedState
from longshore.media import open_queue
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store import LocalRateStore, RateStore
from longshore.pacing.store_shared import SharedRateStore

AT_ONCE = 16


class Site(NamedTuple):
    """How a site limits requests."""

    limiter: Callable[[float], HostLimiter]
    """Makes the limiter, for a run of this many seconds."""
    at_once: int = 0
    """It refuses requests beyond this number in flight; 0 if it does not."""
    work: float = 0.0
    """Seconds for each request."""
    status: int = 429
    says_when: bool = False
    """Whether it sends Retry-After."""


def _falls_and_rises(seconds: float) -> HostLimiter:
    times = (0.0, seconds / 3, 2 * seconds / 3)
    return Changing(*((at, Bucket(rate, 5)) for at, rate in zip(times, (20, 5, 20), strict=True)))


SITES = {
    "7/s, burst 3": Site(lambda _: Bucket(7, 3)),
    "4/s, burst 20": Site(lambda _: Bucket(4, 20)),
    "100/s, burst 20": Site(lambda _: Bucket(100, 20)),
    "60 per 10 s, Retry-After": Site(lambda _: FixedWindow(60, 10.0, 3.0), says_when=True),
    "60 in any 10 s": Site(lambda _: SlidingLog(60, 10.0)),
    "20/s, 5/s, 20/s": Site(_falls_and_rises),
    "4 in flight, each 0.1 s": Site(lambda _: Unbounded(), at_once=4, work=0.1, status=503),
    "25/s, burst 1": Site(lambda _: Bucket(25, 1)),
    "7/s, ban of 20 s after 5 refusals": Site(lambda _: Banning(Bucket(7, 3), 5, 60.0, 20.0)),
}


class Answer(NamedTuple):
    """A line of the site's log."""

    at: float
    page: int
    status: int


def serve(name: str, seconds: float, pipe: Connection) -> None:
    """The site: says its port, and when it is told to stop, its log."""
    asyncio.run(_serve(SITES[name], seconds, pipe))


async def _serve(site: Site, seconds: float, pipe: Connection) -> None:
    log: list[Answer] = []
    limiter, begin, in_flight = site.limiter(seconds), 0.0, 0

    async def page(request: web.Request) -> web.Response:
        nonlocal begin, in_flight
        now = time.monotonic()
        begin = begin or now
        wait = limiter.free_at(now - begin, 0) - (now - begin)
        accepted = wait <= 0 and not (site.at_once and in_flight >= site.at_once)
        log.append(Answer(now, int(request.match_info["page"]), 200 if accepted else site.status))
        if not accepted:
            limiter.refuse(now - begin, 0)
            headers = {"Retry-After": str(math.ceil(wait))} if site.says_when else {}
            return web.Response(status=site.status, headers=headers)
        limiter.accept(now - begin, 0)
        in_flight += 1
        await asyncio.sleep(site.work)
        in_flight -= 1
        return web.Response(text="page")

    app = web.Application()
    app.router.add_get("/{page}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(runner.addresses[0][1])
    await asyncio.to_thread(pipe.recv)
    pipe.send([tuple(answer) for answer in log])
    await runner.cleanup()


def allowed(site: Site, seconds: float) -> int:
    """Return how many requests the site accepts at best."""
    if site.at_once:
        return int(site.at_once / site.work * seconds)
    limiter, now, count = site.limiter(seconds), 0.0, 0
    while (now := limiter.free_at(now, 0)) < seconds:
        limiter.accept(now, 0)
        count += 1
    return count


def fetch(port: int, queue_url: str | None, first_page: int, go: Event, seconds: float, pipe: Connection) -> None:
    """A process that fetches pages, each until it is there; says which it was given."""
    pipe.send(asyncio.run(_fetch(port, queue_url, first_page, go, seconds)))


async def _fetch(port: int, queue_url: str | None, first_page: int, go: Event, seconds: float) -> list[int]:
    queue = None if queue_url is None else await open_queue(queue_url)
    shelf: RateStore = LocalRateStore() if queue is None else SharedRateStore(require(queue, SharedState, "lacks it"))
    pace = LearnedLimiter(shelf)
    host = f"127.0.0.1:{port}"
    pages = iter(range(first_page, first_page + 10**6))
    got: list[int] = []
    go.wait()
    end = time.monotonic() + seconds

    async def one(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            page, status = next(pages), 0
            while status != 200:
                await pace.slot(host, patience=3600.0)
                begin = time.monotonic()
                async with session.get(f"http://{host}/{page}") as answer:
                    await answer.read()
                    status = answer.status
                    after = answer.headers.get("Retry-After")
                pace.answered(host, "", status, None if after is None else float(after), time.monotonic() - begin)
            got.append(page)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(one(session) for _ in range(AT_ONCE)))
    await pace.close()
    if queue is not None:
        await queue.close()
    return got


def contest(name: str, processes: int, queue_url: str | None, seconds: float) -> str:
    """What came of it, in one line."""
    ours, its = SPAWN.Pipe()
    site = SPAWN.Process(target=serve, args=(name, seconds, its), daemon=True)
    site.start()
    port = ours.recv()
    go = SPAWN.Event()
    team: list[tuple[Any, Connection]] = []
    for number in range(processes):
        here, there = SPAWN.Pipe()
        member = SPAWN.Process(target=fetch, args=(port, queue_url, number * 10**6, go, seconds, there), daemon=True)
        member.start()
        team.append((member, here))
    time.sleep(3.0)  # all have started by then; whoever has not begins a little later
    begin = time.monotonic()
    go.set()
    got = {page for _, pipe in team for page in pipe.recv()}
    ours.send("stop")
    log = [Answer(*line) for line in ours.recv()]
    for process in (site, *(member for member, _ in team)):
        process.join(10)
    end = begin + seconds
    through = sum(answer.status == 200 and answer.at <= end for answer in log)
    refused = sum(answer.status != 200 for answer in log)
    lost = {answer.page for answer in log} - got
    return (
        f"| {name} | {processes} | {through / allowed(SITES[name], seconds):.2f} | {refused} of {len(log):,}"
        f" ({refused / len(log):.1%}) | {len(lost)} |"
    )


@contextmanager
def shared_queue(sqlite: bool) -> Iterator[str]:
    """The URL of a queue that several processes share."""
    if sqlite:
        with scratch() as folder:
            yield f"sqlite:///{folder}/jobs.db"
        return
    from benchmarks.postgres_database import fresh_database, start_server

    with start_server() as server, fresh_database(server) as url:
        yield url


def main(arguments: list[str]) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pace", description=__doc__)
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--sqlite", action="store_true", help="share through a file")
    parser.add_argument("--case", action="append", choices=SITES, help="instead of all")
    parser.add_argument("--processes", type=int, action="append", metavar="N", help="instead of 1 and 4")
    chosen = parser.parse_args(arguments)
    print("| site | processes | accepted of what it allows | refused | lost |\n|---|---|---|---|---|", flush=True)
    for name in chosen.case or SITES:
        for processes in chosen.processes or (1, 4):
            if processes == 1:
                print(contest(name, 1, None, chosen.seconds), flush=True)
                continue
            with shared_queue(chosen.sqlite) as url:
                asyncio.run(_make(url))
                print(contest(name, processes, url, chosen.seconds), flush=True)


async def _make(url: str) -> None:
    await (await open_queue(url)).close()


if __name__ == "__main__":
    main(sys.argv[1:])
