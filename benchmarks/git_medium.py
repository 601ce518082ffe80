"""The git medium beside the algorithm written by hand, over `file://`, with real processes.

    python -m benchmarks.git_medium

Prints the table of `RESULTS-git.md`. Settlements count only if the queue shows them once each.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import git_classic
from benchmarks.measure import PAYLOAD, rate, scratch
from longshore.clock import SystemClock
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.git import GitQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals

ROUNDS = 3
CLASSIC_SECONDS = 20.0


def drain(url: str, cache: Path, log: Path, batch: int, apart: bool) -> int:
    """Claim and settle until nothing is left. `apart`: with a mirror of its own, as if on a machine of its own."""
    return asyncio.run(_drain(url, cache / str(os.getpid()) if apart else cache, log, batch))


async def _drain(url: str, cache: Path, log: Path, batch: int) -> int:
    queue = await GitQueue.open(url, SystemClock(), cache)
    want = Want(worker=WorkerId.new(), limit=batch)
    done = 0
    while leases := await queue.claim(want):
        done += sum(await queue.settle([Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]))
    traffic = queue.traffic
    (log / str(os.getpid())).write_text(f"{traffic.pushes} {traffic.refused} {traffic.fetches}")
    await queue.close()
    return done


async def _fill(url: str, cache: Path, jobs: int) -> None:
    queue = await GitQueue.open(url, SystemClock(), cache)
    await queue.submit([NewJob(run="bench", kind="page", key=f"{n}", payload={**PAYLOAD, "n": n}) for n in range(jobs)])
    await queue.close()


async def _completed(url: str, cache: Path) -> int:
    queue = await GitQueue.open(url, SystemClock(), cache)
    completed = totals(await queue.stats()).completed
    await queue.close()
    return completed


def ours(*, processes: int, batch: int, jobs: int, apart: bool = False) -> tuple[float, float]:
    """Jobs a second, and pushes tried for each that was accepted."""
    with scratch() as folder:
        remote, cache, log = folder / "queue.git", folder / "cache", folder / "log"
        log.mkdir()
        subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
        url = f"git+file://{remote}"
        asyncio.run(_fill(url, cache, jobs))
        speed = rate(drain, url, cache, log, batch, apart, processes=processes)
        if asyncio.run(_completed(url, cache)) != jobs:
            raise RuntimeError("not every job was completed")
        numbers = [[int(n) for n in each.read_text().split()] for each in log.iterdir()]
        tried, refused = sum(row[0] for row in numbers), sum(row[1] for row in numbers)
        return speed, tried / max(1, tried - refused)


def classic(*, processes: int, jobs: int) -> tuple[float, float]:
    """Jobs a second of the algorithm written by hand."""
    with scratch() as folder:
        git_classic.fill(folder / "queue.git", folder / "host", jobs)
        return rate(git_classic.drain, folder / "queue.git", folder, CLASSIC_SECONDS, processes=processes), 0.0


CONTESTANTS: dict[str, Callable[[], tuple[float, float]]] = {
    "classic, 4 workers": partial(classic, processes=4, jobs=200),
    "ours, 4 workers, batches of 10": partial(ours, processes=4, batch=10, jobs=1000),
    "ours, 8 workers, batches of 10": partial(ours, processes=8, batch=10, jobs=1000),
    "ours, 4 workers, batches of 100": partial(ours, processes=4, batch=100, jobs=4000),
    "ours, 8 separate mirrors, batches of 10": partial(ours, processes=8, batch=10, jobs=800, apart=True),
}


def main() -> None:
    """Measure all by turns and print the medians."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(ROUNDS):
        for name, contestant in CONTESTANTS.items():
            seen[name].append(contestant())
            print(name, *(f"{number:.2f}" for number in seen[name][-1]), flush=True)
    base = statistics.median(speed for speed, _ in seen["classic, 4 workers"])
    print("| what | jobs/s | to classic | pushes per success |\n|---|---|---|---|")
    for name, results in seen.items():
        speed = statistics.median(s for s, _ in results)
        tries = statistics.median(t for _, t in results)
        print(f"| {name} | {speed:.1f} | {speed / base:.1f}× | {f'{tries:.2f}' if tries else ''} |")


if __name__ == "__main__":
    main()
