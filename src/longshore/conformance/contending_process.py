"""A worker process for the suite: it claims and completes jobs until none remains, and prints each event.

    python -m longshore.conformance.contending_process URL LABEL BATCH LEASE_SECONDS

Each line of its output is one event: `claimed`, `settled` or `refused`, then the key and the epoch.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals


async def contend(url: str, label: str, batch: int, lease: timedelta) -> None:
    """Work until no job of the queue remains."""
    queue = await open_queue(url)
    want = Want(worker=WorkerId.new(label), limit=batch, lease=lease)
    _say("ready")
    while True:
        leases = await queue.claim(want)
        if not leases:
            await queue.reap()
            if not totals(await queue.stats()).remaining:
                break
            await queue.wait(want, timedelta(milliseconds=100))
            continue
        _say(*(_line("claimed", taken) for taken in leases))
        answers = await queue.settle(
            [Settlement(taken, Completed({"by": label, "epoch": taken.epoch})) for taken in leases]
        )
        words = ("settled" if accepted else "refused" for accepted in answers)
        _say(*(_line(word, taken) for word, taken in zip(words, leases, strict=True)))
    await queue.close()


def _line(word: str, lease: Lease) -> str:
    return f"{word} {lease.job.key} {lease.epoch}"


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    url, label, batch, seconds = sys.argv[1:]
    asyncio.run(contend(url, label, int(batch), timedelta(seconds=float(seconds))))
