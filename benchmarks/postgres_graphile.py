"""graphile-worker, from the world of Node: installed into a scratch folder, driven by `peers/graphile.mjs`."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import msgspec

from benchmarks.measure import PAYLOAD, PROCESSES, Settled, scratch

MISSING = "not measured: it needs node and npm"
ADD_BATCH = 5000
DRIVER = Path(__file__).parent / "peers"
_ADD = """
select count(*) from graphile_worker.add_jobs((
  select array_agg(json_populate_record(
    null::graphile_worker.job_spec, json_build_object('identifier', 'page', 'payload', payload::json)
  )) from unnest($1::text[]) payload
))
"""
_LEFT = "select exists (select from graphile_worker.jobs)"


def available() -> bool:
    """Whether this machine can run it."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


@contextmanager
def installed() -> Iterator[Path]:
    """A folder with the driver and what it needs."""
    with scratch() as folder:
        for file in DRIVER.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(npm, cwd=folder, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"npm could not install graphile-worker: {done.stderr.strip()[-500:]}")
        yield folder


def migrate(folder: Path, url: str) -> None:
    """Make its tables."""
    subprocess.run([*_node(folder, "migrate"), url], cwd=folder, check=True)


def fill(folder: Path, url: str, jobs: int) -> None:
    """Make its tables and add jobs."""
    migrate(folder, url)
    asyncio.run(_fill(url, jobs))


async def _fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    encode = msgspec.json.Encoder().encode
    for first in range(0, jobs, ADD_BATCH):
        numbers = range(first, min(first + ADD_BATCH, jobs))
        await connection.fetch(_ADD, [encode({**PAYLOAD, "n": n}).decode() for n in numbers])
    await connection.close()


def drained(folder: Path, url: str) -> list[Settled]:
    """What two processes settled by the time nothing was left."""
    command = [*_node(folder, "drain"), url]
    team = [subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    try:
        asyncio.run(_until_empty(url, team))
    finally:
        for process in team:
            process.terminate()
        answers = [process.communicate(timeout=60)[0] for process in team]
    found = [(str(process.pid), json.loads(answer)) for process, answer in zip(team, answers, strict=True)]
    return [Settled(name, at / 1e9, jobs) for name, entries in found for at, jobs in entries]


async def _until_empty(url: str, team: list[subprocess.Popen[bytes]], timeout: float = 300.0) -> None:
    connection = await asyncpg.connect(url)
    until = time.monotonic() + timeout
    while await connection.fetchval(_LEFT):
        if any(process.poll() is not None for process in team):
            raise RuntimeError("A process of graphile-worker ended before its work was done")
        if time.monotonic() > until:
            raise RuntimeError(f"graphile-worker was not done after {timeout:.0f} s")
        await asyncio.sleep(0.2)
    await connection.close()


def idle_worker(folder: Path, url: str, file: Path) -> subprocess.Popen[bytes]:
    """A worker that writes to a file how long each task had waited to start."""
    return subprocess.Popen([*_node(folder, "latency"), url, str(file)], cwd=folder)


def _node(folder: Path, mode: str) -> list[str]:
    return ["node", str(folder / "graphile.mjs"), mode]
