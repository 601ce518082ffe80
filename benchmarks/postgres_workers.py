"""Whole `longshore work` processes on PostgreSQL, started as a user starts them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from benchmarks.measure import PROCESSES, Settled, scratch
from longshore.media.postgres.location import locate

NOOP = """
import pathlib, time
from longshore import handler

# All workers begin together: short contests would otherwise be over before the second has started.
here = pathlib.Path(__file__).parent
pathlib.Path(here / f"ready-{time.monotonic_ns()}").touch()
while not (here / "gate").exists():
    time.sleep(0.002)

@handler("page")
async def page(job, kit):
    return {"ok": True}
"""
START_SECONDS = 60.0

_SETTLED = """
select worker, extract(epoch from date_trunc('milliseconds', settled_at))::float8 as at, count(*) as jobs
from {schema}.done where worker = any ($1) group by 1, 2
"""
_CURVE = """
select floor(extract(epoch from settled_at - to_timestamp($1)) / $2)::int as stretch, count(*) as jobs
from {schema}.done group by 1 order by 1
"""


def drained(url: str, *options: str) -> list[Settled]:
    """What two workers with these options settled, until they stopped by themselves."""
    with working(url, *options) as team:
        for worker in team:
            worker.process.wait(600)
    return asyncio.run(_settled(url, [worker.label for worker in team]))


class Started:
    """A worker's process, its label and its log."""

    def __init__(self, process: subprocess.Popen[bytes], label: str, log: Path) -> None:
        self.process, self.label, self._log = process, label, log

    def check(self) -> None:
        """Raise `RuntimeError` where it ended badly."""
        if self.process.poll() not in (None, 0):
            raise RuntimeError(f"A worker ended with {self.process.returncode}: {self._log.read_text()[-2000:]}")


@contextmanager
def working(url: str, *options: str, workers: int = PROCESSES, handlers: str = NOOP) -> Iterator[Sequence[Started]]:
    """Workers that have just begun. Those that have not ended by themselves are told to stop, and finish."""
    with scratch() as folder:
        file = folder / "handlers.py"
        file.write_text(handlers)
        team = [_start(url, file, folder, options) for _ in range(workers)]
        try:
            until = time.monotonic() + START_SECONDS
            while len(list(folder.glob("ready-*"))) < workers:
                for worker in team:
                    worker.check()
                if time.monotonic() > until:
                    raise RuntimeError(f"The workers were not ready after {START_SECONDS:.0f} s")
                time.sleep(0.01)
            (folder / "gate").touch()
            yield team
        finally:
            for worker in team:
                worker.process.terminate()
            for worker in team:
                worker.process.wait(60)
        for worker in team:
            worker.check()


def _start(url: str, file: Path, folder: Path, options: Sequence[str]) -> Started:
    label = f"bench-{time.monotonic_ns()}"
    log = folder / f"{label}.log"
    command = [sys.executable, "-m", "longshore", "work", str(file), "--queue", url, "--worker-id", label, *options]
    # The project may be on the path of this process only because it is the current folder; a worker runs elsewhere.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(part).absolute()) for part in sys.path if part)}
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=stream, stderr=stream)
    return Started(process, label, log)


async def _settled(url: str, labels: list[str]) -> list[Settled]:
    connection = await asyncpg.connect(locate(url).dsn)
    rows = await connection.fetch(_SETTLED.format(schema=locate(url).quoted_schema), labels)
    await connection.close()
    return [Settled(*row) for row in rows]


def curve(url: str, since: float, stretch: float) -> dict[int, int]:
    """How many jobs were settled in each stretch of so many seconds since an instant of the database's clock.

    What was settled before has a stretch below 0.
    """
    return asyncio.run(_curve(url, since, stretch))


async def _curve(url: str, since: float, stretch: float) -> dict[int, int]:
    connection = await asyncpg.connect(locate(url).dsn)
    rows = await connection.fetch(_CURVE.format(schema=locate(url).quoted_schema), since, stretch)
    await connection.close()
    return {row["stretch"]: row["jobs"] for row in rows}
