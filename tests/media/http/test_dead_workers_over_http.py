"""A worker that died long ago is not at work, also for those who ask a server that keeps the queue in a folder."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.media.http.server_process import ServerProcess

from longshore import new_job
from longshore.clock import ManualClock
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.media import open_queue
from longshore.runs.watch.active_workers import active_among


async def test_a_server_says_for_how_long_a_worker_was_not_seen(
    api_server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another machine, as far as the server can tell.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    behind = f"dir://{tmp_path / 'jobs'}"
    worker = await open_queue(behind, clock=ManualClock(time.time() - 1200))
    assert isinstance(worker, WorkerRegistry)
    await worker.submit([new_job("page", {"n": 1}, run="r")])
    await worker.register(WorkerId.new("anna"), DEFAULT_LEASE, WorkerInfo(run="r", busy=1, slots=4))
    await worker.close()

    queue = await api_server.connect(await asyncio.to_thread(api_server.open, behind, manual=False))
    registry = find(queue, WorkerRegistry)
    assert registry is not None
    active = active_among(await registry.present_workers(), "r")
    assert (active.workers, active.unseen) == (0, 1)
    assert active.unseen_seconds >= 1200
    await queue.close()
