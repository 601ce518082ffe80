"""A process killed in the middle leaves every call whole or unmade, and counters that add up."""

# ruff: noqa: ASYNC220 - the test has nothing else to do while a child runs

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from longshore.media import open_queue
from longshore.queue import totals

WORK = """
import asyncio, sys
from datetime import timedelta
from itertools import count
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Selection

async def main(url):
    queue = await open_queue(url)
    worker = WorkerId.new()
    for step in count():
        await queue.submit([new_job("page", {"n": n, "by": str(worker), "step": step}, run="r") for n in range(40)])
        leases = await queue.claim(Want(worker=worker, limit=30, lease=timedelta(seconds=1)))
        outcomes = [Completed({"ok": 1}, (new_job("next", {"of": str(worker), "step": step, "n": 1}),)),
                    Failed(Failure("processing", "no")), Released()]
        await queue.settle([Settlement(lease, outcomes[n % 3]) for n, lease in enumerate(leases)])
        await queue.renew(worker, timedelta(seconds=1))
        await queue.cancel(Selection(kinds=frozenset({"next"})))
        await queue.retry(Selection())
        await queue.reap()
        print(step, flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("seed", range(3))
async def test_killed_processes_leave_counters_that_add_up_and_nothing_half_done(file: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WORK, f"sqlite:///{file}"], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            # After some steps, in the middle of whatever comes next.
            for _ in range(chance.randrange(1, 6)):
                child.stdout.readline()
            child.kill()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for state, name in enumerate(("ready", "delayed", "claimed", "completed", "failed", "cancelled")):
            (jobs,) = db.execute("SELECT count(*) FROM job WHERE state = ?", (state,)).fetchone()
            assert db.execute(f"SELECT sum({name}) FROM lane").fetchone() == (jobs,), name
        for half_done in (
            "SELECT 1 FROM job LEFT JOIN content ON content.job = job.id WHERE content.job IS NULL",
            "SELECT 1 FROM job LEFT JOIN settlement ON settlement.job = job.id"
            " WHERE (job.state >= 3) <> (settlement.job IS NOT NULL)",
            "SELECT 1 FROM job LEFT JOIN worker ON worker.id = job.holder"
            " WHERE (job.state = 2) <> (worker.id IS NOT NULL)",
        ):
            assert db.execute(half_done).fetchone() is None, half_done
    queue = await open_queue(f"sqlite:///{file}")
    pages = [lane for lane in await queue.stats("r") if lane.kind == "page"]
    assert totals(pages).total > 0
    assert totals(pages).total % 40 == 0
    await queue.close()
