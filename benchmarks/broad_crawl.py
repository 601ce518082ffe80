"""A broad crawl for real: one `longshore work`, 64 at once, and a site under very many loopback addresses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, cast

import psutil

from benchmarks.measure import SPAWN
from longshore.extensions.find import require
from longshore.extensions.shared_state import SharedState
from longshore.media import open_queue
from longshore.pacing.store_shared import PACE

ROOT = Path(__file__).parents[1]
HANDLERS = """
from longshore import handler

@handler("page")
async def page(job, kit):
    return {"bytes": len((await kit.http.get(job.payload["url"])).body)}
"""
_PAGE = b"<html>" + b"x" * 2000 + b"</html>"
_LOOK_SECONDS = 0.2


class Seen(NamedTuple):
    """A crawl, as it was seen from outside."""

    rate: float
    """Pages a second."""
    cost: float
    """Milliseconds of the worker's processor time for a page."""
    early: float
    """The most memory it had in the first half of the time, in MB."""
    late: float
    """And in the second."""
    notes: int
    """What is known of the pace of hosts in the end: so many notes."""


def crawl(folder: Path, port: int, pages: int, hosts: int) -> Seen:
    """Fetch so many pages of so many hosts, each page once. No pace is learned: all may be asked at once."""
    folder.mkdir()
    (folder / "handlers.py").write_text(HANDLERS)
    urls = (f"http://{_address(number % hosts)}:{port}/page/{number}\n" for number in range(pages))
    (folder / "urls.txt").write_text("".join(urls))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LONGSHORE_HOST_FIRST_RATE": "100000",
        "LONGSHORE_HOST_RATE": "100000",
    }
    command = [sys.executable, "-m", "longshore"]
    submit = [*command, "submit", "page", "--urls-file", "urls.txt", "--run", "crawl"]
    subprocess.run(submit, cwd=folder, env=environment, check=True, capture_output=True)
    work = [*command, "work", "handlers.py", "--run", "crawl", "--until-done", "--concurrency", "64"]
    with (folder / "log").open("w") as log:
        worker = subprocess.Popen(
            [*work, "--log-format", "json"], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        looks = _watched(worker)
    if worker.returncode:
        raise RuntimeError(f"The worker ended with {worker.returncode}: {(folder / 'log').read_text()[-2000:]}")
    # The start of Python and the imports are over at the first look that counts.
    begin, end = looks[min(10, len(looks) // 10)], looks[-1]
    memory = [look[2] for look in looks]
    half = max(1, len(looks) // 2)
    completed, notes = asyncio.run(_outcome(folder))
    if completed != pages:
        raise RuntimeError(f"{completed:,} of {pages:,} pages were completed")
    return Seen(pages / (end[0] - begin[0]), end[1] / pages * 1000, max(memory[:half]), max(memory[half:]), notes)


@contextmanager
def site() -> Iterator[int]:
    """The port of a site that answers under every loopback address, until the end of the block."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def _address(number: int) -> str:
    return f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def _watched(worker: subprocess.Popen[bytes]) -> list[tuple[float, float, float]]:
    """The time, the processor time and the memory (MB) at each look until the worker ends."""
    process, looks = psutil.Process(worker.pid), []
    while worker.poll() is None:
        try:
            times, memory = process.cpu_times(), process.memory_info().rss / 1e6
        except psutil.NoSuchProcess:
            break
        if memory:
            looks.append((time.monotonic(), times.user + times.system, memory))
        time.sleep(_LOOK_SECONDS)
    worker.wait()
    return looks


async def _outcome(folder: Path) -> tuple[int, int]:
    queue = await open_queue(f"sqlite:///{folder}/.longshore/queue.db")
    completed = sum(count.completed for count in await queue.stats("crawl"))
    known = await require(queue, SharedState, "lacks it").read_entries(PACE)
    await queue.close()
    return completed, len(known.entries)


def _serve(there: Connection) -> None:
    asyncio.run(_run(there))


async def _run(there: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(_Visit, "0.0.0.0", 0, backlog=1024)
    there.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class _Visit(asyncio.Protocol):
    """A page for every path but robots.txt, and nothing for anybody from outside this machine."""

    _found = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(_PAGE), _PAGE)
    _absent = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._rest = b""
        if not self._transport.get_extra_info("peername")[0].startswith("127."):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._transport.write(self._absent if head.split(b" ", 2)[1] == b"/robots.txt" else self._found)
