"""Collecting: every result once, whoever is killed, and what was collected packed away."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock, SystemClock
from longshore.errors import (
    Failure,
    MissingQueueError,
    PassingQueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    UsageError,
)
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.git import GitQueue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement
from longshore.queue import Queue, Selection
from longshore.runs.collect import collector
from longshore.runs.collect.collected_file import CollectedFile
from longshore.runs.collect.collector import ArchiveBounds, Archivist, Collector, PassResult, follow

FAILED = Failed(Failure(error_type="processing", message="it broke", retryable=False))
NOBODY = WorkerId.new("w")


async def submit(queue: Queue, *keys: str) -> None:
    await queue.submit([new_job("page", {"k": key}, run="r", key=key) for key in keys])


async def settle(queue: Queue, *keys: str, outcome: Outcome | None = None) -> None:
    """Settle these jobs of those that wait, whatever their age."""
    leases = await queue.claim(Want(worker=NOBODY, limit=1000, run="r"))
    done = [lease for lease in leases if lease.job.key in keys]
    assert len(done) == len(keys)
    await queue.settle([Settlement(lease, outcome or Completed({"ok": lease.job.key})) for lease in done])
    # The others are given back as they were.
    await queue.settle([Settlement(lease, Released()) for lease in leases if lease not in done])


def keys_in(path: Path) -> list[str]:
    return [json.loads(line)["key"] for line in path.read_text().splitlines()]


async def collect(queue: Queue, folder: Path) -> PassResult:
    with CollectedFile(folder, "r") as collected:
        return await Collector(queue, "r", collected).collect()


async def test_each_result_is_collected_once_in_whatever_order_it_comes(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, *"abcdef")
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        for done, expected in (("", ""), ("bd", "bd"), ("", ""), ("ae", "ae"), ("cf", "cf")):
            await settle(queue, *done)
            passed = await collector.collect()
            assert passed.new == len(expected)
        assert passed.finished
        assert collector.lines == 6
    assert sorted(keys_in(tmp_path / "r.jsonl")) == list("abcdef")
    assert (await collect(queue, tmp_path)).new == 0


async def test_a_line_is_what_an_export_writes(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, "a")
    await settle(queue, "a")
    await collect(queue, tmp_path)
    line = '{"run":"r","kind":"page","key":"a","payload":{"k":"a"},"result":{"ok":"a"}}\n'
    assert (tmp_path / "r.jsonl").read_text() == line


async def test_a_pass_reads_only_what_is_behind_the_oldest_unfinished_job(tmp_path: Path) -> None:
    class Watched(MemoryQueue):
        def __init__(self) -> None:
            super().__init__()
            self.afters: list[str] = []

        async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> Any:
            if selection.run == "r" and limit > 1:
                self.afters.append(after)
            return await super().jobs(selection, after=after, limit=limit)

    queue = Watched()
    await submit(queue, *"abcdef")
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        await settle(queue, *"abc")
        await collector.collect()
        queue.afters.clear()
        await settle(queue, *"de")
        assert (await collector.collect()).new == 2
        # The fourth job was the oldest unfinished one, and is asked for by itself.
        assert queue.afters == ["4", "5"]
        queue.afters.clear()
        assert (await collector.collect()).new == 0
        assert queue.afters == []


async def test_what_is_retried_behind_the_back_of_a_pass_is_collected(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, *"abcd")
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        await settle(queue, "a", outcome=FAILED)
        await settle(queue, "b")
        assert (await collector.collect()).new == 1
        assert (await collector.collect()).new == 0
        await queue.retry(Selection(run="r"))
        await settle(queue, "a")
        assert (await collector.collect()).new == 1
        # So quick that the numbers do not show it: found at the end at the latest.
        await settle(queue, "c", outcome=FAILED)
        await collector.collect()
        await queue.retry(Selection(run="r"))
        await settle(queue, "c")
        await settle(queue, "d", outcome=FAILED)
        assert (await collector.collect()).new == 1
    assert sorted(keys_in(tmp_path / "r.jsonl")) == list("abc")


async def test_a_job_that_was_removed_and_done_again_has_a_new_result(tmp_path: Path) -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    for _ in range(2):
        await submit(queue, "a")
        await settle(queue, "a")
        assert (await collect(queue, tmp_path)).new == 1
        await queue.prune(Selection())
        clock.advance(60)
    assert keys_in(tmp_path / "r.jsonl") == ["a", "a"]


async def test_a_file_that_is_taken_away_is_begun_anew_without_what_was_in_it(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, *"ab")
    await settle(queue, "a")
    await collect(queue, tmp_path)
    (tmp_path / "r.jsonl").rename(tmp_path / "taken.jsonl")
    await settle(queue, "b")
    await collect(queue, tmp_path)
    assert keys_in(tmp_path / "taken.jsonl") == ["a"]
    assert keys_in(tmp_path / "r.jsonl") == ["b"]


async def test_a_file_that_is_taken_away_from_a_collector_at_work_is_begun_anew(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, *"abc")
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        for key in "abc":
            await settle(queue, key)
            await collector.collect()
            (tmp_path / "r.jsonl").rename(tmp_path / f"{key}.jsonl")
    assert [keys_in(tmp_path / f"{key}.jsonl") for key in "abc"] == [["a"], ["b"], ["c"]]
    assert (await collect(queue, tmp_path)).new == 0


async def test_lines_that_are_written_into_a_file_as_it_is_taken_away_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = MemoryQueue()
    await submit(queue, *"ab")
    await settle(queue, "a")
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        await collector.collect()
        write = collected._write

        def taken_amid(lines: bytes) -> None:
            (tmp_path / "r.jsonl").rename(tmp_path / "taken.jsonl")
            monkeypatch.undo()
            write(lines)

        monkeypatch.setattr(collected, "_write", taken_amid)
        await settle(queue, "b")
        await collector.collect()
    assert (keys_in(tmp_path / "taken.jsonl"), keys_in(tmp_path / "r.jsonl")) == (["a"], ["b"])


async def test_a_file_that_somebody_shortened_is_refused(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await submit(queue, *"ab")
    await settle(queue, *"ab")
    await collect(queue, tmp_path)
    (tmp_path / "r.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"shorter than it was after the last collect.*r\.collected"):
        CollectedFile(tmp_path, "r")


async def test_two_never_collect_into_one_file(tmp_path: Path) -> None:
    with CollectedFile(tmp_path, "r"), pytest.raises(UsageError, match="Another `longshore collect`"):
        CollectedFile(tmp_path, "r")
    with CollectedFile(tmp_path, "r"), CollectedFile(tmp_path, "s"):
        pass


def test_a_run_that_could_be_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a run id"):
        CollectedFile(tmp_path, "../r")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be collected into"):
        CollectedFile(tmp_path / "file", "r")


VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from longshore.media import open_queue
from longshore.runs.collect import collector as collecting
from longshore.runs.collect.collected_file import CollectedFile
from longshore.runs.collect.collector import Collector

left = int(sys.argv[3])

def step():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

class Mortal(CollectedFile):
    def _append(self, lines):
        step()
        os.lseek(self._file, self._size, os.SEEK_SET)
        os.write(self._file, lines[: len(lines) // 2])
        step()
        super()._append(lines)
        step()
    def _store_size(self, size, lines):
        step()
        super()._store_size(size, lines)
        step()
    def add(self, jobs):
        new = super().add(jobs)
        step()
        return new

async def main(url, folder):
    queue = await open_queue(url)
    collecting.BATCH = 2
    with Mortal(folder, "r") as collected:
        await Collector(queue, "r", collected).collect()
    await queue.close()

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


async def test_kill_9_at_any_step_leaves_no_duplicate_and_no_gap(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    queue = await open_queue(url)
    await submit(queue, *"abcd")
    await settle(queue, *"abcd")
    for step in range(20):
        folder = tmp_path / str(step)
        victim = await asyncio.create_subprocess_exec(sys.executable, "-c", VICTIM, url, str(folder), str(step))
        code = await victim.wait()
        assert code in {0, -signal.SIGKILL}
        await collect(queue, folder)
        assert keys_in(folder / "r.jsonl") == list("abcd"), f"killed at step {step}"
        if code == 0:
            break
    # Both batches: before, amid and after the lines, before and after the index, after all.
    assert step == 12
    await queue.close()


class Notes:
    """What a follower was told; the clock moves on when it has been."""

    def __init__(self) -> None:
        self.new: list[int] = []
        self.packed = 0
        self.troubles: list[str] = []

    def passed(self, passed: Sequence[PassResult], packed: int) -> None:
        self.new.append(sum(each.new for each in passed))
        self.packed += packed

    def unavailable(self, error: PassingQueueError) -> None:
        self.troubles.append(str(error))


class EventfulClock(SystemClock):
    """A clock on which something happens whenever somebody sleeps, and no time passes."""

    def __init__(self, *events: Any) -> None:
        self._events = list(events)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._events.pop(0)()


@pytest.mark.parametrize("trouble", [QueueUnavailableError, ReadOnlyQueueError, QueueFullError, MissingQueueError])
async def test_following_ends_with_the_run_and_outlives_an_outage(
    tmp_path: Path, trouble: type[PassingQueueError]
) -> None:
    class Shaky(MemoryQueue):
        down = False

        async def stats(self, run: str | None = None) -> Any:
            if self.down:
                raise trouble("The queue is restarting.")
            return await super().stats(run)

    queue, told = Shaky(), Notes()
    await submit(queue, *"abc")

    async def go_down() -> None:
        await settle(queue, "b")
        queue.down = True

    async def come_back() -> None:
        queue.down = False

    async def finish() -> None:
        await settle(queue, *"ac")

    clock = EventfulClock(go_down, come_back, finish)
    with CollectedFile(tmp_path, "r") as collected:
        collector = Collector(queue, "r", collected)
        await follow([collector], None, told, clock=clock, every=timedelta(seconds=5))
    assert told.new == [0, 1, 2]
    assert told.troubles == ["The queue is restarting."]
    assert len(clock.slept) == 3
    assert min(clock.slept) >= 5


async def test_an_outage_is_not_rested_from(tmp_path: Path) -> None:
    class Silent(MemoryQueue):
        async def stats(self, run: str | None = None) -> Any:
            if not clock.slept:
                clock.passed += 30
                raise QueueUnavailableError("The queue does not answer.")
            return await super().stats(run)

    class PassingClock(EventfulClock):
        passed = 0.0

        def monotonic(self) -> float:
            return self.passed

    queue, told = Silent(), Notes()

    async def nothing() -> None:
        pass

    clock = PassingClock(nothing)
    with CollectedFile(tmp_path, "r") as collected:
        await follow([Collector(queue, "r", collected)], None, told, clock=clock, every=timedelta(seconds=5))
    assert clock.slept == [5]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "queue.git")], check=True)
    return f"git+file://{tmp_path}/queue.git"


async def test_what_was_collected_is_packed_past_a_number_or_an_age(tmp_path: Path, repository: str) -> None:
    """A13."""
    clock = ManualClock()
    queue = await open_queue(repository, clock=clock)
    assert isinstance(queue, GitQueue)
    await queue.submit([new_job("page", {}, run="other", key="o")])
    [lease] = await queue.claim(Want(worker=NOBODY, run="other"))
    await queue.settle([Settlement(lease, Completed(1))])
    archivist = Archivist(queue, queue, ("r",), ArchiveBounds(age=timedelta(days=30), number=2), clock)

    async def month_jobs() -> int:
        return sum(month.jobs for month in await archivist.archived())

    await submit(queue, "a")
    await settle(queue, "a")
    assert await archivist.pack() == 0
    await submit(queue, "b")
    await settle(queue, "b")
    # Three are at hand now, of which one is of a run that nobody collects here.
    assert await archivist.pack() == 2
    assert await month_jobs() == 2
    # That one is never counted again.
    await submit(queue, *"cd")
    await settle(queue, *"cd")
    assert await archivist.pack() == 0
    clock.advance(timedelta(days=31).total_seconds())
    assert await archivist.pack() == 2
    assert await month_jobs() == 4
    # Packed jobs are still collected.
    assert (await collect(queue, tmp_path / "into")).new == 4
    await queue.close()


async def test_the_index_knows_as_many_results_as_the_file_has_lines(tmp_path: Path) -> None:
    queue = MemoryQueue()
    keys = [str(number) for number in range(50)]
    await submit(queue, *keys)
    await settle(queue, *keys)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(collector, "BATCH", 7)
    await collect(queue, tmp_path)
    monkey.undo()
    with closing(sqlite3.connect(tmp_path / "r.collected")) as database:
        assert database.execute("SELECT count(*) FROM collected").fetchone() == (50,)
        assert database.execute("SELECT size, lines FROM file").fetchall() == [
            ((tmp_path / "r.jsonl").stat().st_size, 50)
        ]
