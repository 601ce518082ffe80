"""Celery on Redis: both on this machine, with no-op tasks of the same payload as everywhere here."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import PAYLOAD, PROCESSES

MISSING = "not measured: needs `redis-server` and `pip install celery redis`"
LATE = "BENCH_CELERY_LATE"
"""Set in the environment of a worker that keeps results, and acknowledges a task when it is done."""
_WORKER = """
import os
from celery import Celery

app = Celery("peer", broker=os.environ["BENCH_REDIS"])
app.conf.task_ignore_result = True
if os.environ.get("BENCH_CELERY_LATE"):
    app.conf.update(
        result_backend=os.environ["BENCH_REDIS"], task_ignore_result=False, task_acks_late=True,
        task_reject_on_worker_lost=True,
    )


@app.task(name="page")
def page(payload):
    return {"ok": True}
"""


def available() -> bool:
    """Return whether both are installed."""
    packages = all(importlib.util.find_spec(name) is not None for name in ("celery", "redis"))
    return packages and shutil.which("redis-server") is not None


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run Redis as it comes for the block, with a data folder of its own, and return its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("Redis did not start")


def drain(redis: str, folder: Path, jobs: int, *, late: bool) -> float:
    """Return the tasks a second of one worker with two processes, from a tenth of all tasks on until none is left.

    What has begun is read from the length of the queue in Redis: a worker prefetches eight tasks.
    """
    import redis as client  # type: ignore[import-not-found, unused-ignore]

    (folder / "peer.py").write_text(_WORKER)
    environment = os.environ | {"BENCH_REDIS": redis, LATE: "1" if late else ""}
    fill = "import json, sys, peer\nfor n in range(%d): peer.page.delay(json.loads(%r) | {'n': n})"
    subprocess.run([sys.executable, "-c", fill % (jobs, json.dumps(PAYLOAD))], cwd=folder, env=environment, check=True)
    command = [sys.executable, "-m", "celery", "-A", "peer", "worker", "-c", str(PROCESSES), "-l", "ERROR"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    connection = client.Redis.from_url(redis)
    with subprocess.Popen([*command, *quiet], cwd=folder, env=environment, stdout=subprocess.DEVNULL) as worker:
        try:
            return _rate(connection, jobs)
        finally:
            worker.terminate()
            worker.wait()
            connection.flushall()
            connection.close()


def _rate(connection: object, jobs: int) -> float:
    length = connection.llen  # type: ignore[attr-defined]
    begin: tuple[float, int] | None = None
    for _ in itertools.count():
        left, now = int(length("celery")), time.monotonic()
        if begin is None and left <= jobs * 0.9:
            begin = now, left
        if left == 0 and begin is not None:
            return begin[1] / (now - begin[0])
        time.sleep(0.01)
    raise AssertionError
