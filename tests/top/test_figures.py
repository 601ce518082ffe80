"""The figures of a look, on a queue in memory and on the media that need no server."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.top.top_scene import Scene

from longshore.clock import ManualClock, SystemClock
from longshore.errors import NotFoundError
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.job import Job, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import AnswerCounts, RatePolicy, unknown
from longshore.pacing.rate_learning import fold
from longshore.queue import Queue, Selection
from longshore.runs.control.pause import EVERYTHING, pause
from longshore.top.figures import FiguresReader
from longshore.top.job_reader import PAGE


async def test_all_runs_are_summed_up_those_that_are_worked_on_first(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(2, run="1_done")
    await scene.complete(2, run="1_done")
    await scene.submit(3, run="2_busy")
    await scene.submit(4, run="3_idle")
    await scene.claim(1, run="2_busy")
    board = await FiguresReader(scene.queue, None, clock).look()
    assert [lane.count.run for lane in board.lanes] == ["2_busy", "3_idle", "1_done"]
    assert (board.count.total, board.count.remaining, board.count.claimed) == (9, 7, 1)
    assert board.estimate is None


async def test_how_fast_it_goes_comes_from_the_looks_themselves(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(100)
    lookout = FiguresReader(scene.queue, None, clock)
    assert (await lookout.look()).per_second == 0
    for _ in range(5):
        await scene.complete(4)
        clock.advance(2)
        board = await lookout.look()
    assert board.per_second == pytest.approx(2.0)
    assert board.lanes[0].per_second == pytest.approx(2.0)
    assert board.left == pytest.approx(40.0)
    assert sum(span.finished for span in board.spans) == 20


async def test_a_run_comes_with_its_kinds_and_an_estimate(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(50, kind="list", partition="CA")
    await scene.submit(50, kind="page")
    await scene.submit(9, run="other")
    lookout = FiguresReader(scene.queue, "r", clock)
    await lookout.look()
    for _ in range(10):
        await scene.complete(3, run="r")
        clock.advance(1)
        board = await lookout.look()
    assert [(lane.count.kind, lane.count.partition) for lane in board.lanes] == [("list", "CA"), ("page", "")]
    assert board.count.total == 100
    assert board.estimate is not None
    assert board.estimate.p50 is not None
    assert board.estimate.p90 is not None
    assert 0 < board.estimate.p50 <= board.estimate.p90


@pytest.mark.parametrize("named", ["r", EVERYTHING])
async def test_no_time_is_promised_for_a_run_that_is_paused(scene: Scene, clock: ManualClock, named: str) -> None:
    await scene.submit(50)
    await scene.submit(50, run="other")
    one, both = FiguresReader(scene.queue, "r", clock), FiguresReader(scene.queue, None, clock)
    for _ in range(5):
        await scene.complete(3, run="r")
        await scene.complete(3, run="other")
        clock.advance(2)
        await one.look()
        await both.look()
    await pause(scene.queue, named)
    clock.advance(6)
    board, everything = await one.look(), await both.look()
    assert board.estimate is not None
    assert (list(board.blockers.paused), board.estimate.p50, board.left) == ([named], None, None)
    assert everything.left is None
    promised = {lane.count.run for lane in everything.lanes if lane.left is not None}
    assert promised == ({"other"} if named == "r" else set())


async def test_workers_hosts_and_failures_are_those_of_the_run(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(6)
    await scene.submit(2, run="other", host="b.org")
    await scene.fail(2)
    await scene.claim(1, run="r")
    await scene.register("mine", WorkerInfo(run="r"))
    await scene.register("theirs", WorkerInfo(run="other"))
    board = await FiguresReader(scene.queue, "r", clock).look()
    assert [(row.label, row.held) for row in board.workers] == [("mine", 0), ("w-1", 1)]
    assert {row.host for row in board.hosts} == {"a.org"}
    everything = await FiguresReader(scene.queue, None, clock).look()
    assert {row.label for row in everything.workers} == {"mine", "theirs", "w-1"}
    assert {row.host for row in everything.hosts} == {"a.org", "b.org"}


async def test_a_worker_that_died_long_ago_is_only_seen_by_what_it_holds(
    scene: Scene, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As media without a clock of their own report it to a process that has just started."""
    await scene.submit(2)
    await scene.claim(1)
    gone = [PresentWorker(WorkerId(label, f"{label}/1"), WorkerInfo(run="r", busy=1), 1200.0) for label in ("w-1", "x")]

    async def present_workers() -> list[PresentWorker]:
        return gone

    monkeypatch.setattr(scene.queue, "present_workers", present_workers)
    board = await FiguresReader(scene.queue, "r", clock).look()
    assert [(row.label, row.registered, row.held, row.busy) for row in board.workers] == [("w-1", False, 1, None)]
    assert board.estimate is not None
    assert board.estimate.unknown == "no worker is at work on it"


async def test_failures_are_told_apart_from_jobs_that_are_tried_again(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(5)
    await scene.fail(2)
    await scene.fail(1, retryable=True)
    [kind] = (await FiguresReader(scene.queue, "r", clock).look()).failures
    assert (kind.exception, kind.pattern, kind.failed, kind.retrying) == ("ValueError", "Page * has no title", 2, 1)


async def test_a_closed_host_is_shown_with_until_when_and_why(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(3)
    now = clock.now()
    refused = AnswerCounts(refused=1, hard=True, status=429, sent=now, closed_until=now + 600)
    store = rate_store_for(scene.queue, clock)
    await store.write("a.org", "", fold(unknown(now, RatePolicy()), refused, now, RatePolicy()))
    store.close()
    [row] = (await FiguresReader(scene.queue, "r", clock).look()).hosts
    assert row.closed_for == pytest.approx(600)
    assert "429" in row.why


async def test_a_run_that_is_pruned_meanwhile_is_said_to_be_gone(scene: Scene, clock: ManualClock) -> None:
    await scene.submit(1)
    lookout = FiguresReader(scene.queue, "r", clock)
    await lookout.look()
    await scene.complete(1)
    await scene.queue.prune(Selection(run="r"))
    with pytest.raises(NotFoundError):
        await lookout.look()


class Counting(MemoryQueue):
    """Counts how often jobs are read, by state."""

    reads: Counter[str]

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        self.reads.update(selection.states or ())
        return await super().jobs(selection, after=after, limit=limit)


async def test_jobs_are_read_every_few_seconds_and_failed_ones_only_when_more_failed(clock: ManualClock) -> None:
    queue = Counting(clock)
    queue.reads = Counter()
    scene = Scene(queue)
    await scene.submit(5)
    await scene.fail(1)
    lookout = FiguresReader(queue, None, clock)
    for _ in range(20):
        await lookout.look()
        clock.advance(1)
    # Each time once for the figures of all, and once for the age of the oldest.
    assert queue.reads["pending"] == 4 * 2
    assert queue.reads["failed"] == 1
    await scene.fail(1)
    clock.advance(5)
    board = await lookout.look()
    assert queue.reads["failed"] == 2
    assert board.failures[0].failed == 2


async def test_of_very_many_pending_jobs_a_part_is_read_at_a_time(clock: ManualClock) -> None:
    class Slow(MemoryQueue):
        async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
            clock.advance(0.1)
            return await super().jobs(selection, after=after, limit=limit)

    scene = Scene(Slow(clock))
    await scene.submit(5 * PAGE)
    lookout = FiguresReader(scene.queue, None, clock)
    board = await lookout.look()
    assert not board.hosts_known
    assert board.hosts[0].waiting == 5 * PAGE
    for _ in range(3):
        clock.advance(60)
        board = await lookout.look()
    assert board.hosts_known


def bare(folder: Path) -> str:
    subprocess.run(["git", "init", "--bare", "-q", str(folder)], check=True)
    return f"git+file://{folder}"


@pytest.fixture(params=["sqlite", "directory", "git"])
async def queue(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Queue]:
    urls = {"sqlite": f"sqlite:///{tmp_path}/q.db", "directory": f"dir://{tmp_path}/q"}
    opened = await open_queue(bare(tmp_path / "q.git") if request.param == "git" else urls[request.param])
    yield opened
    await opened.close()


async def test_every_medium_gives_the_same_figures(queue: Queue) -> None:
    scene = Scene(queue)
    await scene.submit(8)
    await scene.fail(2)
    await scene.complete(3)
    await scene.claim(1)
    await scene.register("w-1", WorkerInfo(run="r"))
    board = await FiguresReader(queue, "r", SystemClock()).look()
    count = board.count
    assert (count.pending, count.claimed, count.completed, count.failed) == (2, 1, 3, 2)
    assert {row.host: row.waiting for row in board.hosts} == {"a.org": 2}
    assert [(kind.pattern, kind.failed) for kind in board.failures] == [("Page * has no title", 2)]
    assert {row.label: row.held for row in board.workers} == {"w-1": 1}


async def test_jobs_that_no_counter_includes_are_told(tmp_path: Path, clock: ManualClock) -> None:
    queue = await open_queue(f"dir://{tmp_path}/jobs", clock=clock)
    await queue.submit([new_job("page", {"n": number}, run="r") for number in range(2)])
    board = await FiguresReader(queue, "r", clock).look()
    assert board.rejected is None
    next((tmp_path / "jobs" / "pending").rglob("*.json")).write_text("nonsense")
    await queue.claim(Want(worker=WorkerId.new("w"), limit=2))
    for run in ("r", None):
        board = await FiguresReader(queue, run, clock).look()
        assert board.rejected is not None
        assert (board.count.total, board.rejected.count) == (1, 1)
    await queue.close()
