"""What the contract's own functions do, on any queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from longshore.errors import UnknownSchemeError
from longshore.job import Job, new_job
from longshore.media import open_queue
from longshore.queue import Count, Selection, each_job, totals


async def test_each_job_reads_page_by_page_and_misses_none() -> None:
    queue = await open_queue("memory://")
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(25)])
    for page in (1, 7, 25, 1000):
        found = [job.payload["n"] async for job in each_job(queue, Selection(run="r"), page=page)]
        assert found == list(range(25))


def test_totals_add_up_every_state() -> None:
    counts = [
        Count(run="a", pending=1, claimed=2, completed=3, failed=4, cancelled=5),
        Count(run="b", pending=10, claimed=20, completed=30, failed=40, cancelled=50),
    ]
    total = totals(counts)
    assert total == Count(pending=11, claimed=22, completed=33, failed=44, cancelled=55)
    assert (total.remaining, total.total) == (33, 165)
    assert totals([]) == Count()


@pytest.mark.parametrize("at", [1e308, -1e308, 1e18])
def test_a_time_that_no_calendar_has_stops_no_selection(at: float) -> None:
    job = Job(id="1", run="r", kind="page", key="k", payload={}, submitted_at=at)
    assert Selection(run="r").matches(job, 1.7e9)
    Selection(run="r", older_than=timedelta(days=1)).matches(job, 1.7e9)


@pytest.mark.parametrize(("seconds", "old"), [(59.999_999, False), (60, True), (60.000_001, True)])
def test_a_job_is_as_old_as_the_selection_asks(seconds: float, old: bool) -> None:
    job = Job(id="1", run="r", kind="page", key="k", payload={}, submitted_at=1_700_000_000.1)
    assert Selection(older_than=timedelta(minutes=1)).matches(job, 1_700_000_000.1 + seconds) is old


async def test_an_unknown_scheme_is_named_and_its_password_is_not() -> None:
    with pytest.raises(UnknownSchemeError, match=r"'gopher://me:\*\*\*@x'.*sqlite://"):
        await open_queue("gopher://me:secret@x")
