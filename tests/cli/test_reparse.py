"""`longshore reparse`: a run is repaired from its pages, without one request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.kept_run import BROKEN, FIXED, RUN, run_broken

from longshore import new_job, open_queue
from longshore.cli import main
from longshore.job import Job, JobName, State
from longshore.lease import Want, WorkerId
from longshore.queue import Selection
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, set_limits
from longshore.runs.records.run_records import decided_records


def jobs(here: Path) -> list[Job]:
    async def listed() -> list[Job]:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        try:
            return await queue.jobs(Selection())
        finally:
            await queue.close()

    return asyncio.run(listed())


def records(here: Path) -> dict[str, list[Any]]:
    """The records of each page, by the number at the end of its URL."""

    async def read() -> dict[str, list[Any]]:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        try:
            survey = await decided_records(queue, here / ".longshore" / "records", run=RUN)
            numbers = {job.key: job.payload["url"].rpartition("/")[2] for job in await queue.jobs(Selection())}
            found: dict[str, list[Any]] = {}
            for record in survey.records():
                found.setdefault(numbers[record.key], []).append(record.data)
            return found
        finally:
            await queue.close()

    return asyncio.run(read())


@pytest.mark.ledger("F8")
def test_a_run_is_repaired_from_its_pages_without_one_request(here: Path, says: Callable[..., str]) -> None:
    """F8: failed jobs become completed, and every record is that of the mended parser, once."""
    site = run_broken(here, 30)
    assert sum(job.state is State.FAILED for job in jobs(here)) == 10
    assert len(records(here)) == 20
    (here / "pages.py").write_text(FIXED)
    out = says("reparse", RUN, "pages.py")
    assert "10  repaired: failed before, completed now" in out
    assert "20  parsed again" in out
    assert "60 records. No request was made." in out
    assert site.asked == 30
    assert {job.state for job in jobs(here)} == {State.COMPLETED}
    assert records(here) == {str(n): [{"n": n, "fixed": True}, {"n": n + 1, "fixed": True}] for n in range(30)}


def test_to_reparse_again_changes_nothing(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 6)
    (here / "pages.py").write_text(FIXED)
    says("reparse", RUN, "pages.py")
    once = records(here)
    assert "6  parsed again" in says("reparse", RUN, "pages.py")
    assert records(here) == once


def test_what_still_fails_stays_as_it_is_and_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_broken(here, 6)
    before = jobs(here)
    assert main(["reparse", RUN, "pages.py"]) == 1
    out = capsys.readouterr().out
    assert "2  still failing" in out
    assert "Why those that fail do:\n        2  ValueError: invalid literal for int() with base 10: 'x'\n" in out
    assert [(job.state, job.epoch, job.attempts) for job in jobs(here)] == [
        (job.state, job.epoch, job.attempts) for job in before
    ]


def test_a_completed_job_on_which_the_new_parse_fails_keeps_its_records(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_broken(here, 3)
    before = records(here)
    (here / "pages.py").write_text(BROKEN.replace("int(part)", 'int(part + "!")'))
    assert main(["reparse", RUN, "pages.py"]) == 1
    assert "2  completed before, and failing on the new parse: left as they are" in capsys.readouterr().out
    assert records(here) == before


def test_jobs_that_wait_are_left_to_the_workers(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 6)

    async def submit() -> None:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        waiting = [new_job("page", {"url": f"https://a.org/{n}"}, run=RUN, priority=-1) for n in range(300)]
        await queue.submit(waiting)
        await queue.close()

    asyncio.run(submit())
    (here / "pages.py").write_text(FIXED)
    assert "2  repaired" in says("reparse", RUN, "pages.py")
    waiting = [job for job in jobs(here) if job.payload["url"].startswith("https://a.org")]
    assert {(job.state, job.attempts) for job in waiting} == {(State.PENDING, 0)}


def test_follow_on_jobs_that_the_new_parse_finds_are_submitted(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    more = 'return Result({}, jobs=[new_job("next", {"url": job.payload["url"] + "/next"})])'
    (here / "pages.py").write_text(FIXED.replace('return {"length": len(response.body)}', more))
    assert "3 new jobs to come" in says("reparse", RUN, "pages.py")
    follow_ons = [job for job in jobs(here) if job.kind == "next"]
    assert {(job.run, job.state) for job in follow_ons} == {(RUN, State.PENDING)}
    assert len(follow_ons) == 3


def test_a_paused_run_can_be_reparsed(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    (here / "pages.py").write_text(FIXED)
    says("pause", RUN)
    assert "1  repaired: failed before, completed now" in says("reparse", RUN, "pages.py")


MORE = FIXED.replace(
    'return {"length": len(response.body)}',
    'return Result({}, jobs=[new_job("next", {"url": job.payload["url"] + "/next"})])',
)


def limited(here: Path, limits: GrowthLimits) -> None:
    async def go() -> None:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        await set_limits(queue, RUN, limits)
        await queue.close()

    asyncio.run(go())


def dropped(here: Path) -> LeftOut:
    async def go() -> LeftOut:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        try:
            return await left_out(queue, RUN)
        finally:
            await queue.close()

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("limits", "added", "too_deep", "too_many"),
    [(GrowthLimits(max_jobs=7), 1, 0, 5), (GrowthLimits(max_depth=0), 0, 6, 0)],
)
def test_follow_on_jobs_of_a_new_parse_keep_to_the_limits_of_the_run(
    here: Path, says: Callable[..., str], limits: GrowthLimits, added: int, too_deep: int, too_many: int
) -> None:
    """Four jobs were completed before, and two are repaired: both ways of adding jobs are tried."""
    run_broken(here, 6)
    limited(here, limits)
    (here / "pages.py").write_text(MORE)
    assert json.loads(says("reparse", RUN, "pages.py", "--json"))["follow_ons"] == added
    assert len(jobs(here)) == 6 + added
    assert dropped(here) == LeftOut(too_deep=too_deep, too_many=too_many)


def test_only_repaired_jobs_may_be_the_ones_beyond_the_limit(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 6)
    limited(here, GrowthLimits(max_jobs=11))
    (here / "pages.py").write_text(MORE)
    assert json.loads(says("reparse", RUN, "pages.py", "--json"))["follow_ons"] == 5
    assert len(jobs(here)) == 11
    assert dropped(here) == LeftOut(too_many=1)


def test_jobs_that_the_run_has_already_are_not_counted_as_dropped(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    (here / "pages.py").write_text(MORE)
    says("reparse", RUN, "pages.py")
    limited(here, GrowthLimits(max_jobs=6))
    assert json.loads(says("reparse", RUN, "pages.py", "--json"))["follow_ons"] == 0
    assert dropped(here) == LeftOut()


def test_only_jobs_that_are_new_are_announced_whether_their_parent_was_repaired_or_not(
    here: Path, says: Callable[..., str]
) -> None:
    run_broken(here, 6)
    known = [new_job("next", {"url": job.payload["url"] + "/next"}, run=RUN) for job in jobs(here)]

    async def submit() -> None:
        queue = await open_queue(f"sqlite:///{here}/.longshore/queue.db")
        await queue.submit(known)
        await queue.close()

    asyncio.run(submit())
    (here / "pages.py").write_text(MORE)
    out = says("reparse", RUN, "pages.py")
    assert "2  repaired: failed before, completed now" in out
    assert "to come" not in out
    assert len(jobs(here)) == 12


def test_follow_on_jobs_of_a_new_parse_know_their_parent_and_depth(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    (here / "pages.py").write_text(MORE)
    says("reparse", RUN, "pages.py")
    pages = {JobName(job.kind, job.key) for job in jobs(here) if job.kind == "page"}
    follow_ons = [job for job in jobs(here) if job.kind == "next"]
    assert {job.parent for job in follow_ons} == pages
    assert [job.depth for job in follow_ons] == [1, 1, 1]


def test_jobs_without_pages_are_left_alone(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    for file in (here / ".longshore" / "pages" / "jobs").rglob("*.json"):
        file.unlink()
    (here / "pages.py").write_text(FIXED)
    assert "3  without a page that was kept: left as they are" in says("reparse", RUN, "pages.py")


def test_one_job_whose_pages_are_damaged_does_not_hold_up_the_others(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 6)
    next((here / ".longshore" / "pages" / "jobs").glob("*/*.json")).write_bytes(b"")
    (here / "pages.py").write_text(FIXED)
    assert "1  without a page that was kept" in says("reparse", RUN, "pages.py")


def test_programs_get_json(here: Path, says: Callable[..., str]) -> None:
    run_broken(here, 3)
    (here / "pages.py").write_text(FIXED)
    whole = json.loads(says("reparse", RUN, "pages.py", "--json"))
    assert (whole["repaired"], whole["refreshed"], whole["records"]) == (1, 2, 6)


def test_a_run_that_is_not_there_is_refused(here: Path, refused: Callable[..., str]) -> None:
    run_broken(here, 1)
    assert "There is no run 'tuesday'" in refused("reparse", "tuesday", "pages.py")


def test_a_run_whose_pages_were_not_kept_is_refused_with_what_to_do(here: Path, refused: Callable[..., str]) -> None:
    run_broken(here, 1)
    assert "No pages are kept in elsewhere/pages" in refused("reparse", RUN, "pages.py", "--data-folder", "elsewhere")


def test_a_job_that_another_worker_takes_meanwhile_is_its_own(
    here: Path, monkeypatch: pytest.MonkeyPatch, says: Callable[..., str]
) -> None:
    """F2: what was parsed here counts for nothing then, and leaves no record."""
    from longshore.media.sqlite import SqliteQueue

    run_broken(here, 1)
    (here / "pages.py").write_text(FIXED)
    retry = SqliteQueue.retry

    async def retry_and_lose(queue: SqliteQueue, selection: Selection) -> int:
        made = await retry(queue, selection)
        assert len(await queue.claim(Want(worker=WorkerId.new("other"), limit=1))) == 1
        return made

    monkeypatch.setattr(SqliteQueue, "retry", retry_and_lose)
    assert "1  pending again, but taken by another worker" in says("reparse", RUN, "pages.py")
    assert records(here) == {}
