"""Records and the queue together: whatever is killed, every completed job has its records, whole and once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from longshore import new_job, open_queue
from longshore.clock import ManualClock
from longshore.job import State
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection, totals
from longshore.runs.records.run_records import decided_records
from longshore.scrape.records import Emission, RecordWriter

EACH = 25
VICTIM = """
import asyncio, sys
from datetime import timedelta
from pathlib import Path
from longshore import open_queue
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Settlement
from longshore.scrape.records import Emission, RecordWriter

def say(what):
    sys.stdout.write(what + "\\n")
    sys.stdout.flush()

async def main(url, folder, each):
    queue = await open_queue(url)
    worker = WorkerId.new("victim")
    writer = RecordWriter(folder, worker.incarnation)
    while True:
        await queue.reap()
        leases = await queue.claim(Want(worker=worker, limit=7, lease=timedelta(seconds=1)))
        if not leases and not any(count.remaining for count in await queue.stats()):
            break
        for lease in leases:
            emission = Emission()
            for n in range(each):
                emission.emit({"job": lease.job.payload["n"], "n": n, "text": "x" * 500})
            writer.put(lease.job, emission.emitted())
        say("put")
        writer.flush()
        say("flushed")
        accepted = await queue.settle([Settlement(lease, Completed()) for lease in leases])
        say("settled")
        for lease, ok in zip(leases, accepted):
            if ok:
                writer.settled(lease.job.id, lease.epoch)
        say("marked")
    writer.close()
    await queue.close()

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
"""


def start(url: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", VICTIM, url, str(folder), str(EACH)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_kill_9_at_any_moment_leaves_no_half_record_and_no_duplicate(tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path}/queue.db", tmp_path / "records"
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": n}, run="r", max_attempts=100) for n in range(200)])
    chance = random.Random(7)
    for kill in range(5):
        victim = start(url, folder)
        assert victim.stdout is not None
        # Each step is once the last that was heard of; the kill falls somewhere in what follows it.
        for _ in range(4 * chance.randrange(1, 3) + kill % 4 + 1):
            if not victim.stdout.readline():
                break
        victim.send_signal(signal.SIGKILL)
        victim.wait(30)
        victim.stdout.close()
        await check(queue, folder)
    last = start(url, folder)
    assert last.communicate(timeout=60)
    assert last.returncode == 0
    assert totals(await queue.stats()).completed == 200
    assert await check(queue, folder) == 200
    await queue.close()


async def check(queue: Queue, folder: Path) -> int:
    """What an export would hold now: of every completed job all its records, once, and nothing else."""
    survey = await decided_records(queue, folder)
    completed = {job.payload["n"] for job in await queue.jobs(Selection(states=frozenset({State.COMPLETED})))}
    found = Counter((record.data["job"], record.data["n"]) for record in survey.records())
    assert found == Counter((job, n) for job in completed for n in range(EACH))
    return len(completed)


async def test_a_worker_that_lost_its_lease_leaves_no_record(tmp_path: Path) -> None:
    """F2."""
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"n": 1}, run="r")])
    for label in ("zombie", "heir"):
        worker = WorkerId.new(label)
        await queue.reap()
        (lease,) = await queue.claim(Want(worker=worker, lease=timedelta(seconds=10)))
        writer = RecordWriter(tmp_path, worker.incarnation)
        emission = Emission()
        emission.emit({"by": label})
        emitted = emission.emitted()
        assert emitted is not None
        writer.put(lease.job, emitted)
        writer.flush()
        if label == "zombie":
            clock.advance(60)
            zombie = Settlement(lease, Completed())
        else:
            assert await queue.settle([zombie, Settlement(lease, Completed())]) == [False, True]
        writer.close()
    survey = await decided_records(queue, tmp_path)
    assert [record.data for record in survey.records()] == [{"by": "heir"}]


@pytest.mark.parametrize("other", [{"run": "other"}, {"key": "other"}])
async def test_records_of_another_queue_are_not_taken_for_this_ones(tmp_path: Path, other: dict[str, str]) -> None:
    """Both have a job of id 1, at epoch 1, and only this one's is completed."""
    for mine, named in ((False, {"run": "r", "key": "k"} | other), (True, {"run": "r", "key": "k"})):
        queue = MemoryQueue()
        await queue.submit([new_job("page", {}, **named)])  # type: ignore[arg-type]
        worker = WorkerId.new("w")
        (lease,) = await queue.claim(Want(worker=worker))
        writer = RecordWriter(tmp_path, worker.incarnation)
        emission = Emission()
        emission.emit({"mine": mine})
        emitted = emission.emitted()
        assert emitted is not None
        writer.put(lease.job, emitted)
        writer.close()
        if mine:
            await queue.settle([Settlement(lease, Completed())])
    survey = await decided_records(queue, tmp_path)
    assert [record.data for record in survey.records()] == [{"mine": True}]
