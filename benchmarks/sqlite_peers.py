"""The peers on SQLite, each used as its own documentation shows, with its own default durability.

`pip install huey litequeue persist-queue`; one that is missing is left out, and the table says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import PAYLOAD

PEERS = {"huey": "huey", "litequeue": "litequeue", "persist-queue": "persistqueue"}


def installed() -> list[str]:
    """The peers that can be measured here."""
    return [name for name, module in PEERS.items() if importlib.util.find_spec(module) is not None]


def submit(name: str, path: Path, jobs: int) -> float:
    """Add jobs one by one, for none of them has a batch. Jobs a second."""
    queue = _open(name, path)
    payloads = [{**PAYLOAD, "n": number} for number in range(jobs)]
    begin = time.monotonic()
    for payload in payloads:
        if name == "huey":
            queue.enqueue(queue.noop.s(payload))
        else:
            queue.put(json.dumps(payload))
    return jobs / (time.monotonic() - begin)


def drain(name: str, path: Path) -> int:
    """Take, do nothing, acknowledge, until nothing is left."""
    queue = _open(name, path)
    done = 0
    while True:
        if name == "huey":
            task = queue.dequeue()
            if task is None:
                return done
            queue.execute(task)
        elif name == "litequeue":
            message = queue.pop()
            if message is None:
                return done
            json.loads(message.data)
            queue.done(message.message_id)
        else:
            if queue.empty():
                return done
            item = queue.get(block=False)
            json.loads(item)
            queue.ack(item)
        done += 1


def processes(name: str) -> int:
    """How many processes may share the queue: persist-queue's is for the threads of one."""
    return 1 if name == "persist-queue" else 2


def _open(name: str, path: Path) -> Any:
    module: Any = importlib.import_module(PEERS[name])
    if name == "huey":
        queue = module.SqliteHuey("bench", filename=str(path))
        queue.noop = queue.task()(_noop)
        return queue
    if name == "litequeue":
        return module.LiteQueue(str(path))
    return module.SQLiteAckQueue(str(path), auto_commit=True)


def _noop(payload: dict[str, Any]) -> dict[str, bool]:
    del payload
    return {"ok": True}
