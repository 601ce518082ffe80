"""The cost of a claim depends neither on excluded hosts nor on the number of hosts."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from longshore.clock import ManualClock
from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media.directory import DirectoryQueue
from longshore.media.directory.files.job_file import encode, new_record
from longshore.media.directory.files.layout import JobFileName, host_folder, host_of, lane_of, pending
from longshore.media.directory.ops.host_turns import HostTurn
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Selection

BANNED = frozenset({"banned.test"})
LANE = lane_of("r", "page", "")


def job(key: str, host: str, **fields: Any) -> NewJob:
    return NewJob(run="r", kind="page", key=key, payload={}, host=host, **fields)


def want(limit: int, **fields: Any) -> Want:
    return Want(worker=WorkerId("anna", "anna/1"), limit=limit, lease=timedelta(seconds=60), **fields)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest_asyncio.fixture
async def queue(tmp_path: Path) -> AsyncIterator[DirectoryQueue]:
    queue = await DirectoryQueue.open(tmp_path, ManualClock())
    yield queue
    await queue.close()


class Work:
    """Counts the calls to the file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        for name in ("listdir", "open", "rename", "rmdir", "readlink", "mkdir"):
            monkeypatch.setattr(os, name, self._counted(name))

    def _counted(self, name: str) -> Any:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = original(*arguments, **options)
            self.calls[name] += 1
            self.calls["names"] += len(answer) if name == "listdir" else 0
            return answer

        return call


def put(folder: Path, host: str, numbers: range) -> None:
    """Make ready jobs as a submission does, but without keys; all have the content of the first."""
    content = encode(new_record(job(f"{host}-{numbers[0]}", host), 0.0))
    for start in range(numbers.start, numbers.stop, 1000):
        paths = [
            f"{folder}/{pending(LANE, JobFileName(number, 0, 0, 0, host=host_of(host), change='0123456789ab'))}"
            for number in range(start, min(start + 1000, numbers.stop))
        ]
        first = Path(paths[0])
        first.parent.mkdir(parents=True)
        first.write_bytes(content)
        for path in paths[1:]:
            # A hard link instead of a file, which is much faster for very many jobs.
            os.link(paths[0], path)


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


async def work_of(
    queue: DirectoryQueue, monkeypatch: pytest.MonkeyPatch, limit: int, without_hosts: frozenset[str] = BANNED
) -> Counter[str]:
    """Return the cost of a claim and of a wait after it; the claim begins at the same host each time."""
    queue._turn = HostTurn("80", "")
    with monkeypatch.context() as counting:
        work = Work(counting)
        leases = await queue.claim(want(limit, without_hosts=without_hosts))
        assert await queue.wait(want(limit, without_hosts=without_hosts), timedelta(0))
    assert len({lease.job.host for lease in leases}) == limit
    assert all(await queue.settle([Settlement(lease, Released()) for lease in leases]))
    return work.calls


async def test_an_excluded_host_with_200_000_jobs_costs_no_more_than_its_name(
    queue: DirectoryQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.submit([job(f"{n}", f"{n % 50}.test") for n in range(100)])
    without = await work_of(queue, monkeypatch, 10)
    put(tmp_path, "banned.test", range(1_000_000, 1_200_000))
    beside = await work_of(queue, monkeypatch, 10)
    shutil.rmtree(tmp_path / host_folder(LANE, 0, host_of("banned.test")))
    # Its shard and its name, in the claim and in the wait.
    assert {what: beside[what] - without[what] for what in beside if beside[what] > without[what] + 4} == {}


async def test_a_claim_of_100_out_of_20_000_hosts_lists_few_of_them(
    queue: DirectoryQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.submit([job(f"first-{n}", "first.test") for n in range(200)])
    for number in range(20_000):
        put(tmp_path, f"{number}.test", range(1_000_000 + 10 * number, 1_000_005 + 10 * number))
    closed = frozenset(f"{number}.test" for number in range(2_000))
    calls = await work_of(queue, monkeypatch, 100, closed)
    shutil.rmtree(tmp_path / "pending")
    # Two folders and two files per job; two shards of about 80 hosts; five names in each host's folder.
    assert calls["listdir"] < 250
    assert calls["names"] < 1500
    assert calls["open"] < 150


def put_far_apart(folder: Path, hosts: int, jobs: int) -> None:
    """Make `jobs` jobs of each host, each in its own segment, as when very many hosts are submitted in turn."""
    for number in range(jobs):
        for host in range(hosts):
            start = 1_000_000 + 1000 * number + host
            put(folder, f"{host}.test", range(start, start + 1))


async def test_a_claim_lists_the_folders_of_a_host_once(
    queue: DirectoryQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.submit([job(f"first-{n}", "first.test") for n in range(200)])
    put_far_apart(tmp_path, hosts=200, jobs=3)
    calls = await work_of(queue, monkeypatch, 100, frozenset({"first.test"}))
    # The folders of a host and one of them for each job, and the shards.
    assert calls["listdir"] < 2 * 100 + 140


async def test_folders_that_claims_have_emptied_do_not_accumulate(queue: DirectoryQueue, tmp_path: Path) -> None:
    await queue.submit([job(f"first-{n}", "first.test") for n in range(2_500)])
    put_far_apart(tmp_path, hosts=200, jobs=12)
    for _ in range(20):
        assert len(await queue.claim(want(100, without_hosts=frozenset({"first.test"})))) == 100
    empty = [path for path in (tmp_path / "pending").glob("*/*/*/*/*") if not any(path.iterdir())]
    assert len(empty) <= 1_100


async def test_each_open_queue_starts_at_a_random_host(queue: DirectoryQueue, tmp_path: Path) -> None:
    await queue.submit([job(f"{n}-{host}", f"{host}.test") for n in range(3) for host in range(40)])
    first = set()
    for _ in range(20):
        other = await DirectoryQueue.open(tmp_path, ManualClock())
        (lease,) = await other.claim(want(1))
        first.add(lease.job.host)
        assert await other.settle([Settlement(lease, Released())]) == [True]
        await other.close()
    # The probability that all 20 start at the same host by chance is 1 in 40 to the power of 19.
    assert len(first) > 1


@pytest.mark.parametrize(("host", "found"), [("banned.test", False), ("open.test", True)])
async def test_a_due_delayed_job_of_an_excluded_host_cannot_be_claimed(tmp_path: Path, host: str, found: bool) -> None:
    clock = ManualClock()
    queue = await DirectoryQueue.open(tmp_path, clock)
    await queue.submit([job("a", host, not_before=clock.now() + 30)])
    clock.advance(34)
    assert await queue.wait(want(1, without_hosts=BANNED), timedelta(0)) is found
    assert bool(await queue.claim(want(1, without_hosts=BANNED))) is found
    await queue.close()


async def test_the_folders_of_a_host_are_removed_after_its_last_job(queue: DirectoryQueue, tmp_path: Path) -> None:
    await queue.submit([job(f"{n}", f"{n}.test") for n in range(100)])
    while await queue.claim(want(30)):
        pass
    assert [path for path in (tmp_path / "pending").rglob("*") if "test~" in path.name] == []


@pytest.mark.parametrize("what", ["name", "folder"])
async def test_a_job_that_was_moved_to_another_host_by_hand_is_rejected(
    queue: DirectoryQueue, tmp_path: Path, what: str
) -> None:
    await queue.submit([job("a", "a.test"), job("b", "b.test")])
    file = only(tmp_path, f"{host_folder(LANE, 0, host_of('a.test'))}/*/*.json")
    target = file.with_name(file.name.replace(host_of("a.test"), host_of("b.test")))
    if what == "folder":
        target = only(tmp_path, f"{host_folder(LANE, 0, host_of('b.test'))}/*") / file.name
    file.rename(target)
    assert [lease.job.key for lease in await queue.claim(want(5))] == ["b"]
    (reason,) = (tmp_path / "rejected").glob("*.reason.txt")
    assert "another host" in reason.read_text()
    assert (await queue.submit([job("a", "a.test")])).new == 1
    assert [lease.job.key for lease in await queue.claim(want(5))] == ["a"]


async def test_the_key_of_a_waiting_job_with_a_host_stays_taken_after_a_prune(queue: DirectoryQueue) -> None:
    await queue.submit([job("done", "a.test"), job("ready", "b.test"), job("bare", "")])
    (lease,) = await queue.claim(want(1, without_hosts=frozenset({"b.test", ""})))
    assert await queue.settle([Settlement(lease, Completed())]) == [True]
    assert await queue.prune(Selection()) == 1
    again = await queue.submit([job("done", "x.test"), job("ready", "x.test"), job("bare", "x.test")])
    assert (again.new, again.duplicates) == (1, 2)
