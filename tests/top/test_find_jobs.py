"""Jobs to choose from, everything about one, and changing some."""

from __future__ import annotations

import pytest
from tests.top.top_scene import Scene

from longshore.errors import Failure, NotFoundError
from longshore.job import Job, State
from longshore.outcome import Failed
from longshore.queue import Selection
from longshore.runs.control.bulk_action import BulkAction, size_of
from longshore.runs.control.job_filter import JobFilter
from longshore.top import find_jobs
from longshore.top.find_jobs import Wanted, detail_of, find

ALL = Wanted(title="all", selection=Selection(run="r"))


async def test_what_is_under_way_comes_first_then_what_failed_and_what_is_done_last(scene: Scene) -> None:
    await scene.submit(4)
    await scene.complete(1)
    await scene.fail(1)
    await scene.claim(1)
    found = await find(scene.queue, ALL)
    assert [row.state for row in found.rows] == [State.CLAIMED, State.FAILED, State.PENDING, State.COMPLETED]
    assert not found.more


async def test_a_job_that_fails_while_it_is_looked_for_is_found_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.submit(2)
    leases = await scene.claim(1)
    jobs = scene.queue.jobs

    async def jobs_and_then_it_fails(selection: Selection, *, after: str, limit: int) -> list[Job]:
        page = await jobs(selection, after=after, limit=limit)
        if selection.states == frozenset({State.CLAIMED}):
            await scene.settle(leases, Failed(Failure("unknown", "no title", retryable=False)))
        return page

    monkeypatch.setattr(scene.queue, "jobs", jobs_and_then_it_fails)
    rows = (await find(scene.queue, ALL)).rows
    assert [row.state for row in rows] == [State.FAILED, State.PENDING]
    assert rows[0].id == leases[0].job.id


async def test_a_text_is_looked_for_in_all_that_a_job_says(scene: Scene) -> None:
    await scene.submit(3, host="a.org")
    await scene.submit(2, host="b.org", partition="CA")
    await scene.fail(1)
    for text, number in (("B.ORG", 2), ("has no title", 1), ("w-1", 1), ("CA", 2), ("failed", 1), ("nowhere", 0)):
        assert len((await find(scene.queue, ALL, text)).rows) == number, text


async def test_what_the_queue_cannot_select_is_picked_out_by_reading(scene: Scene) -> None:
    await scene.submit(3, host="a.org")
    await scene.submit(2, host="b.org")
    wanted = Wanted(title="b", selection=Selection(run="r"), accepts=lambda job: job.host == "b.org")
    assert [row.what for row in (await find(scene.queue, wanted)).rows] == ["https://b.org/1", "https://b.org/2"]


async def test_no_more_is_shown_than_fits_and_no_more_read_than_is_bearable(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.submit(500)
    found = await find(scene.queue, ALL)
    assert (len(found.rows), found.more) == (find_jobs.SHOWN, True)
    monkeypatch.setattr(find_jobs, "_READ", 300)
    found = await find(scene.queue, ALL, "nowhere")
    assert (found.rows, found.read, found.more) == ((), 300, True)


async def test_passwords_in_urls_are_not_shown(scene: Scene) -> None:
    await scene.submit(1, host="user:secret@a.org")
    assert (await find(scene.queue, ALL)).rows[0].what == "https://user:***@a.org/1"


async def test_a_job_comes_with_its_attempts(scene: Scene) -> None:
    await scene.submit(1)
    await scene.fail(1, retryable=True)
    detail = await detail_of(scene.queue, "1")
    assert [attempt.worker for attempt in detail.history] == ["w-1"]


async def test_a_job_that_is_gone_is_said_to_be(scene: Scene) -> None:
    with pytest.raises(NotFoundError, match="no job '7' any more"):
        await detail_of(scene.queue, "7")


@pytest.mark.parametrize(("change", "number"), [(BulkAction.RETRY, 2), (BulkAction.CANCEL, 3)])
async def test_retry_means_failed_jobs_and_cancel_unfinished_ones(
    scene: Scene, change: BulkAction, number: int
) -> None:
    await scene.submit(6)
    await scene.complete(1)
    await scene.fail(2)
    await scene.claim(1)
    await scene.submit(1, run="other")
    meant = change.narrowed(Selection(run="r"))
    assert (await size_of(scene.queue, JobFilter(selection=meant))).jobs == number
    assert await change.call(scene.queue, meant) == number


async def test_a_cancelled_job_is_retried_when_it_is_named(scene: Scene) -> None:
    await scene.submit(1)
    await scene.queue.cancel(Selection(run="r"))
    failed = JobFilter(selection=BulkAction.RETRY.narrowed(Selection(run="r")))
    assert (await size_of(scene.queue, failed)).jobs == 0
    named = BulkAction.RETRY.narrowed(Selection(ids=frozenset({"1"})))
    assert await BulkAction.RETRY.call(scene.queue, named) == 1


async def test_very_many_are_counted_up_to_a_bound(scene: Scene) -> None:
    await scene.submit(1200)
    await scene.fail(1200)
    chosen = BulkAction.RETRY.narrowed(Selection(run="r", error="Page * has no title"))
    size = await size_of(scene.queue, JobFilter(selection=chosen), most=1000)
    assert (size.jobs, size.more) == (1000, True)
