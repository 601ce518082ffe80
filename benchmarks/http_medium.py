"""A queue over HTTP beside the same queue used directly: server, workers and database share the machine."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from benchmarks.measure import Settled, meet
from longshore.lease import Lease, Want, WorkerId
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.outcome import Completed, Settlement


@contextmanager
def serving(queue: str, folder: Path) -> Iterator[tuple[str, str, int]]:
    """Run a server for the block: its URL, an admin key, and its process id."""
    command = [sys.executable, "-m", "longshore", "serve", "--port", "0"]
    variables = os.environ | {"LONGSHORE_QUEUE": queue}
    server = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"(http://127\.0\.0\.1:\d+/api)", server.stdout.readline())
        assert found is not None
        yield found[1], (folder / ".longshore" / "server" / "admin.key").read_text().strip(), server.pid
    finally:
        server.terminate()
        server.communicate()


def drain(url: str, key: str, batch: int, most: int = 1 << 62) -> list[Settled]:
    """Settle the last batch and claim the next in one call, until nothing is left or enough is done."""
    return asyncio.run(_drain(url, key, batch, most))


async def _drain(url: str, key: str, batch: int, most: int) -> list[Settled]:
    queue = await HttpQueue.open(ApiConnection(url, key))
    want = Want(worker=WorkerId.new(), limit=batch, run="bench", kinds=frozenset({"page"}))
    found, done, name = [], 0, str(os.getpid())
    meet()
    leases = await queue.claim(want)
    while leases:
        settlements = [Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]
        if done + len(leases) >= most:
            accepted, leases = await queue.settle(settlements), []
        elif batch > 1:
            # Two calls at once, as a worker makes them.
            answers = await asyncio.gather(queue.settle(settlements), queue.claim(want))
            accepted, leases = cast("tuple[list[bool], list[Lease]]", tuple(answers))
        else:
            accepted, leases = await queue.settle_and_claim(settlements, want)
        done += sum(accepted)
        found.append(Settled(name, time.monotonic(), sum(accepted)))
    await queue.close()
    return found
