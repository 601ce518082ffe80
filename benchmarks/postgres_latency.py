"""From a submission to the start of its handler on an idle fleet.

Each payload has the instant of its submission, by the clock that all processes of a machine share, and the handler
looks at the same clock. All contestants are idle at once, and a single job goes to one after the other.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from tests.services.postgres import PostgresServer

from benchmarks import postgres_graphile, postgres_peers, postgres_raw
from benchmarks.measure import SPAWN, scratch
from benchmarks.postgres_database import execute, fresh_database
from benchmarks.postgres_workers import working
from longshore.clock import SystemClock
from longshore.job import new_job
from longshore.media.postgres import PostgresQueue

RAW, OURS, GRAPHILE, PGQUEUER = "bare loop", "longshore", "graphile-worker", "pgqueuer"
WARM_UP = 20
PAUSE_SECONDS = 0.04
PATIENCE_SECONDS = 30.0
HANDLER = """
import pathlib, time
from longshore import handler

waits = pathlib.Path({file!r}).open("a", buffering=1)
here = pathlib.Path(__file__).parent
pathlib.Path(here / "ready-1").touch()

@handler("page")
async def page(job, kit):
    waited = time.monotonic_ns() - job.payload["at"]
    waits.write(f"{{waited}}\\n")
"""

Submit = Callable[[int], Awaitable[object]]
"""Submits one job with that number. It reads the clock itself, just before it calls."""


def waits(server: PostgresServer, times: int, node: Path | None) -> dict[str, list[float]]:
    """Milliseconds for each contestant that is here, sorted."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        urls, files = {}, {}
        names = [RAW, OURS, *([GRAPHILE] if node else []), *([PGQUEUER] if postgres_peers.installed(PGQUEUER) else [])]
        for name in names:
            urls[name] = stack.enter_context(fresh_database(server))
            files[name] = folder / name.replace(" ", "-")
            files[name].touch()
            stack.enter_context(_idle(name, urls[name], files[name], node))
        return asyncio.run(_by_turns(urls, files, times))


@contextmanager
def _idle(name: str, url: str, file: Path, node: Path | None) -> Iterator[None]:
    """One worker that waits for work."""
    if name == OURS:
        asyncio.run(_create(url))
        with working(url, workers=1, handlers=HANDLER.format(file=str(file))):
            yield
    elif name == GRAPHILE:
        assert node is not None
        postgres_graphile.migrate(node, url)
        with _ended(postgres_graphile.idle_worker(node, url, file)):
            yield
    else:
        if name == RAW:
            execute(url, postgres_raw.CREATE.format(unique="unique"))
        else:
            asyncio.run(postgres_peers.install_pgqueuer(url))
        target = _idle_raw if name == RAW else postgres_peers.idle_pgqueuer
        process = SPAWN.Process(target=target, args=(url, file))
        process.start()
        try:
            yield
        finally:
            process.terminate()
            process.join()


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def _create(url: str) -> None:
    await (await PostgresQueue.open(url, SystemClock())).close()


async def _by_turns(urls: dict[str, str], files: dict[str, Path], times: int) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        submits = {name: await _submitter(name, url, stack) for name, url in urls.items()}
        for number in range(WARM_UP + times):
            for name, submit in submits.items():
                await submit(number)
                # Never in step with anybody's own rhythm.
                await asyncio.sleep(PAUSE_SECONDS * random.uniform(0.75, 1.25))
                if number == 0:
                    # The first comes when the worker has started; only then is anyone idle.
                    await _all_started(name, files[name], 1)
        for name, file in files.items():
            await _all_started(name, file, WARM_UP + times)
    return {name: sorted(int(line) / 1e6 for line in _lines(file)[WARM_UP:]) for name, file in files.items()}


async def _all_started(name: str, file: Path, jobs: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while len(_lines(file)) < jobs:
        if time.monotonic() > until:
            raise RuntimeError(f"{name}: {len(_lines(file))} of {jobs} jobs were started in {PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(0.05)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


async def _submitter(name: str, url: str, stack: AsyncExitStack) -> Submit:
    if name == OURS:
        queue = await PostgresQueue.open(url, SystemClock())
        stack.push_async_callback(queue.close)
        return lambda n: queue.submit([new_job("page", {"at": time.monotonic_ns()}, run="bench", key=str(n))])
    connection = await asyncpg.connect(url)
    stack.push_async_callback(connection.close)
    if name == PGQUEUER:
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        queries = Queries(AsyncpgDriver(connection))
        return lambda _: queries.enqueue("page", _payload().encode(), 0)
    if name == GRAPHILE:
        return lambda _: connection.execute("select graphile_worker.add_job('page', $1::text::json)", _payload())
    insert = "with added as (insert into raw_job (key, payload) values ($1, $2)) select pg_notify('raw_job', '')"
    return lambda n: connection.execute(insert, str(n), _payload())


def _payload() -> str:
    return json.dumps({"at": time.monotonic_ns()})


def note_wait(file: Path, submitted: int) -> None:
    """Write down how long a job that starts now has waited, in nanoseconds."""
    waited = time.monotonic_ns() - submitted
    with file.open("a") as stream:
        stream.write(f"{waited}\n")


def _idle_raw(url: str, file: Path) -> None:
    asyncio.run(_listen(url, file))


async def _listen(url: str, file: Path) -> None:
    """LISTEN, and claim when told. Nothing is polled: this is the least it can be."""
    ear, connection = await asyncpg.connect(url), await asyncpg.connect(url)
    told = asyncio.Event()

    def hear(*_: Any) -> None:
        told.set()

    await ear.add_listener("raw_job", hear)
    told.set()
    while await told.wait():
        told.clear()
        rows = await connection.fetch(postgres_raw.CLAIM, 10)
        for row in rows:
            note_wait(file, json.loads(row["payload"])["at"])
        await connection.execute(postgres_raw.SETTLE, [row["id"] for row in rows])
