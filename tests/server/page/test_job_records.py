"""The page of a completed job leads to its records: those that count, of this job only, as text."""

from __future__ import annotations

from typing import Any

from tests.server.page.conftest import Visitor

from longshore.server.auth.keys import Scope


async def _complete(visitor: Visitor, *keys: str, records: list[list[Any]]) -> list[str]:
    """Complete jobs with these records, and return their ids."""
    api = visitor.api
    await api.submit(*keys)
    claimed = await api.claim(limit=len(keys))
    outcome = {"type": "completed", "result": None}
    settlements = [{"lease": each["lease"], "outcome": outcome, "records": records} for each in claimed]
    await api.post("/settlements", {"settlements": settlements})
    return [each["job"]["id"] for each in claimed]


async def test_a_completed_job_shows_its_own_records(visitor: Visitor) -> None:
    (job,) = await _complete(visitor, "a", records=[["item", {"price": 31}], ["note", "<script>alert(1)</script>"]])
    (other,) = await _complete(visitor, "b", records=[["item", {"price": 42}]])
    await visitor.log_in(Scope.READ)
    assert f"/job/records?id={job}" in (await visitor.get(f"/job?id={job}")).text
    for headers in ({}, {"HX_Request": "true"}):  # a page of its own without scripts, a part of the page with them
        answer = await visitor.get(f"/job/records?id={job}", **headers)
        assert (answer.status, '"price": 31' in answer.page.text(), "42" in answer.page.text()) == (200, True, False)
        assert "<script>alert" not in answer.text
    assert '"price": 42' in (await visitor.get(f"/job/records?id={other}")).page.text()


async def test_a_job_with_many_records_shows_the_first_and_says_so(visitor: Visitor) -> None:
    (job,) = await _complete(visitor, "a", records=[["item", {"n": f"number {n}."}] for n in range(60)])
    await visitor.log_in()
    text = (await visitor.get(f"/job/records?id={job}")).page.text()
    assert ("number 0." in text, "number 49." in text, "number 50." in text) == (True, True, False)
    assert "The first 50" in text


async def test_jobs_without_records_and_unfinished_ones_say_so(visitor: Visitor) -> None:
    (job,) = await _complete(visitor, "a", records=[])
    await visitor.api.submit("b")
    await visitor.log_in()
    assert "no records here" in (await visitor.get(f"/job/records?id={job}")).text
    unfinished = str(int(job) + 1)
    assert "/job/records" not in (await visitor.get(f"/job?id={unfinished}")).text
    assert "no records here" in (await visitor.get(f"/job/records?id={unfinished}")).text


async def test_records_of_jobs_outside_the_reach_of_a_key_do_not_exist_for_it(visitor: Visitor) -> None:
    (job,) = await _complete(visitor, "a", records=[["item", {"price": 31}]])
    await visitor.log_in(Scope.READ, runs=["others"])
    answer = await visitor.get(f"/job/records?id={job}")
    assert (answer.status, "31" in answer.page.text()) == (404, False)
