"""How much of what a site allows is used, and how many answers are refusals: `python -m benchmarks.pace`.

A site in a process of its own allows R requests a second and a burst on top, and keeps the log that is judged. It is
asked by one process, and by four that share the pace through PostgreSQL (or, with --sqlite, a file).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from benchmarks.measure import SPAWN, scratch
from longshore.extensions.find import require
from longshore.extensions.shared_state import SharedState
from longshore.media import open_queue
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store import LocalRateStore, RateStore
from longshore.pacing.store_shared import SharedRateStore

LEARNING = 20.0
"""Seconds that are left out of the share."""
AT_ONCE = 16
CASES = ((10, 5), (100, 20), (30, 1), (3, 5))
"""Requests a second that are allowed, and the burst."""


class Answer(NamedTuple):
    """A line of the site's log."""

    at: float
    page: int
    status: int


def serve(allowed: float, burst: float, pipe: Connection) -> None:
    """The site: says its port, and when it is told to stop, its log."""
    asyncio.run(_serve(allowed, burst, pipe))


async def _serve(allowed: float, burst: float, pipe: Connection) -> None:
    log: list[Answer] = []
    tokens, last = burst, time.monotonic()

    async def page(request: web.Request) -> web.Response:
        nonlocal tokens, last
        now = time.monotonic()
        tokens, last = min(burst, tokens + (now - last) * allowed), now
        status = 200 if tokens >= 1 else 429
        tokens -= status == 200
        log.append(Answer(now, int(request.match_info["page"]), status))
        return web.Response(status=status, text="page")

    app = web.Application()
    app.router.add_get("/{page}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(runner.addresses[0][1])
    await asyncio.to_thread(pipe.recv)
    pipe.send([tuple(answer) for answer in log])
    await runner.cleanup()


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
                pace.answered(host, "", status, None, time.monotonic() - begin)
            got.append(page)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(one(session) for _ in range(AT_ONCE)))
    await pace.close()
    if queue is not None:
        await queue.close()
    return got


def contest(allowed: float, burst: float, processes: int, queue_url: str | None, seconds: float) -> str:
    """What came of it, in one line."""
    ours, its = SPAWN.Pipe()
    site = SPAWN.Process(target=serve, args=(allowed, burst, its), daemon=True)
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
    judged = [answer for answer in log if begin + LEARNING <= answer.at <= end]
    through = sum(answer.status == 200 for answer in judged) / (seconds - LEARNING)
    refused = sum(answer.status == 429 for answer in log)
    lost = {answer.page for answer in log} - got
    return (
        f"| {allowed:g}/s, burst {burst:g} | {processes} | {through / allowed:.3f} | {refused} of {len(log):,}"
        f" ({100 * refused / len(log):.2f} %) | {len(lost)} |"
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
    parser.add_argument("--case", action="append", metavar="R,BURST", help="instead of the usual ones")
    parser.add_argument("--processes", type=int, action="append", metavar="N", help="instead of 1 and 4")
    chosen = parser.parse_args(arguments)
    cases = [tuple(map(float, case.split(","))) for case in chosen.case] if chosen.case else CASES
    print(
        f"| site | processes | share of R after {LEARNING:.0f} s | refused | lost |\n|---|---|---|---|---|", flush=True
    )
    for allowed, burst in cases:
        for processes in chosen.processes or (1, 4):
            if processes == 1:
                print(contest(allowed, burst, 1, None, chosen.seconds), flush=True)
                continue
            with shared_queue(chosen.sqlite) as url:
                asyncio.run(_make(url))
                print(contest(allowed, burst, processes, url, chosen.seconds), flush=True)


async def _make(url: str) -> None:
    await (await open_queue(url)).close()


if __name__ == "__main__":
    main(sys.argv[1:])
