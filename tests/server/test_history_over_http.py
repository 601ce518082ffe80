"""The history of a queue over HTTP: the server applies the limits of a run after the call was recorded."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
from tests.server.conftest import Api

from longshore.conformance.history import HistoryWriter, Moments, RecordingQueue, check, read_histories
from longshore.conformance.history.events import JobSeen, LimitsSet, QueueSeen
from longshore.job import Job, NewJob
from longshore.lease import Want, WorkerId
from longshore.media.http.connection import VERSION, ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection, totals
from longshore.runs.control.growth_limits import GrowthLimits, set_limits


async def test_a_follow_on_that_the_server_drops_by_a_limit_is_not_lost(api: Api, tmp_path: Path) -> None:
    Moments(tmp_path / "moment", create=True)
    history = HistoryWriter(tmp_path, "worker-1", "worker")
    connection = ApiConnection(api.url.removesuffix(VERSION), api.key)
    queue = RecordingQueue(await HttpQueue.open(connection), history, "main")
    try:
        await set_limits(queue, "grow", GrowthLimits(max_depth=0))
        history.write(LimitsSet(queue="main", run="grow", max_depth=0))
        await queue.submit([NewJob(run="grow", kind="page", key="parent", payload={})])
        want = Want(worker=WorkerId.new("anna"), limit=1, lease=timedelta(minutes=5), run="grow")
        (lease,) = await queue.claim(want)
        too_deep = NewJob(run="grow", kind="page", key="too deep", payload={})
        assert await queue.settle([Settlement(lease, Completed(None, (too_deep,)))]) == [True]
        jobs = await queue.jobs(Selection())
        counted = totals(await queue.stats())
    finally:
        await queue.close()
    assert [job.key for job in jobs] == ["parent"]
    seen = QueueSeen(queue="main", jobs=tuple(map(_seen, jobs)), counts={"completed": counted.completed})
    assert check(read_histories(tmp_path), [seen]) == []


def _seen(job: Job) -> JobSeen:
    return JobSeen(
        id=job.id,
        name=(job.run, job.kind, job.key),
        state=job.state.value,
        epoch=job.epoch,
        attempts=job.attempts,
        result=msgspec.json.encode(job.result).decode(),
    )
