"""Connections that are cut, delayed and left half open: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.media.http.faulty_proxy import FaultyProxy
from tests.media.http.repeating import RepeatingQueue
from tests.media.http.server_process import ServerProcess

from longshore import new_job
from longshore.errors import QueueUnavailableError
from longshore.lease import Want, WorkerId
from longshore.media.http import connection
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.scrape.records import Emission

LOST = ["answer lost"]


async def scripted(api_server: ServerProcess, tmp_path: Path, *faults: str) -> tuple[HttpQueue, FaultyProxy]:
    """Return a queue with one pending job, and the proxy in front of it, whose next requests meet these faults."""
    url = await asyncio.to_thread(api_server.open, f"sqlite:///{tmp_path / 'q.db'}", manual=False)
    proxy = FaultyProxy(int(api_server.port), "", script=["none", "none", *faults])
    queue = await HttpQueue.open(ApiConnection(url.replace(f":{api_server.port}/", f":{proxy.port}/"), api_server.key))
    await queue.submit([new_job("page", {"n": 1}, run="r"), new_job("page", {"n": 2}, run="r")])
    return queue, proxy


@pytest.mark.parametrize("faults", [[], LOST, ["cut before"], ["half open"], ["delayed"], LOST * 2, LOST * 3], ids=str)
async def test_a_claim_whose_answer_was_lost_brings_the_same_job_when_it_is_repeated(
    api_server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[str]
) -> None:
    monkeypatch.setattr(connection, "_ANSWER_SECONDS", 4.0)
    queue, proxy = await scripted(api_server, tmp_path, *faults)
    want = Want(worker=WorkerId.new("anna"), limit=1)
    leases = await RepeatingQueue(queue).claim(want)  # type: ignore[attr-defined]  # made from the methods of the queue
    assert [lease.job.key for lease in leases] == [(await queue.jobs(Selection()))[0].key]
    assert [count.claimed for count in await queue.stats("r")] == [1]
    assert await queue.settle([Settlement(lease, Completed()) for lease in leases]) == [True]
    assert [lease.job.epoch for lease in await queue.claim(want)] == [1]
    await queue.close()
    proxy.stop()


@pytest.mark.parametrize("faults", [LOST, LOST * 3, ["cut before", *LOST], ["half open"]], ids=str)
async def test_a_settlement_whose_answer_was_lost_counts_once(
    api_server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[str]
) -> None:
    monkeypatch.setattr(connection, "_ANSWER_SECONDS", 4.0)
    queue, proxy = await scripted(api_server, tmp_path, "none", *faults)
    leases = await queue.claim(Want(worker=WorkerId.new("anna"), limit=2))
    settlements = [Settlement(lease, Completed({"n": lease.job.id})) for lease in leases]
    assert await RepeatingQueue(queue).settle(settlements) == [True, True]
    assert [job.result for job in await queue.jobs(Selection())] == [{"n": lease.job.id} for lease in leases]
    await queue.close()
    proxy.stop()


async def test_records_whose_answer_was_lost_are_sent_again_and_count_once(
    api_server: ServerProcess, tmp_path: Path
) -> None:
    queue, proxy = await scripted(api_server, tmp_path, "none", *LOST, "cut before")
    (lease,) = await queue.claim(Want(worker=WorkerId.new("anna"), limit=1))
    keeper = await queue.traces()
    emission = Emission()
    emission.emit({"n": 1})
    emitted = emission.emitted()
    assert emitted is not None
    sink = keeper.new_records()
    sink.put(lease.job, emitted)
    for _ in range(2):
        with pytest.raises(QueueUnavailableError):
            await sink.flush()
    await sink.flush()
    assert await queue.settle([Settlement(lease, Completed())]) == [True]
    assert [record.data async for record in keeper.records("r")] == [{"n": 1}]
    await queue.close()
    proxy.stop()


async def test_a_stream_of_records_that_breaks_off_is_no_end(api_server: ServerProcess, tmp_path: Path) -> None:
    queue, proxy = await scripted(api_server, tmp_path, "half an answer")
    with pytest.raises(QueueUnavailableError):
        [record async for record in (await queue.traces()).records("r")]
    assert [record async for record in (await queue.traces()).records("r")] == []
    await queue.close()
    proxy.stop()
