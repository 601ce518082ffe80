"""Jobs over HTTP: each submitted one says what became of it, lists go page by page, one job is changed by its id."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.clock import ManualClock
from longshore.errors import Failure
from longshore.extensions.kind_schemas import publish_schemas
from longshore.extensions.shared_state import SharedState
from longshore.lease import Want, WorkerId
from longshore.outcome import Failed, Settlement
from longshore.server.auth.keys import Scope


def _job(key: str, **payload: Any) -> dict[str, Any]:
    return {"kind": "page", "run": "r", "key": key, "payload": payload}


async def _fail_all(api: Api, *, retryable: bool = False) -> None:
    leases = await api.served.queue.claim(Want(worker=WorkerId("w", "w"), limit=100))
    failure = Failure("timeout", "it took too long", retryable=retryable)
    await api.served.queue.settle([Settlement(lease, Failed(failure)) for lease in leases])


async def test_each_submitted_job_says_whether_it_is_new_a_duplicate_or_collides(api: Api) -> None:
    await api.post("/jobs", {"jobs": [_job("a", n=1), _job("b", n=2)]})
    body = {"jobs": [_job("a", n=1), _job("b", n=3), _job("c", n=4), _job("c", n=4), _job("c", n=5)], "items": True}
    answer = await api.post("/jobs", body)
    assert (answer["new"], answer["duplicates"]) == (1, 4)
    assert [(each["state"], each["key"]) for each in answer["items"]] == [
        ("duplicate", "a"),
        ("collision", "b"),
        ("new", "c"),
        ("duplicate", "c"),
        ("collision", "c"),
    ]
    assert [(await api.get(f"/jobs/{each['id']}"))["payload"]["n"] for each in answer["items"]] == [1, 2, 4, 4, 4]


async def test_a_submission_without_items_answers_with_counts_alone(api: Api) -> None:
    assert await api.post("/jobs", {"jobs": [_job("a"), _job("a")]}) == {"new": 1, "duplicates": 1}


async def test_a_job_comes_with_its_attempts(api: Api) -> None:
    await api.submit("a")
    await _fail_all(api, retryable=True)
    (job,) = (await api.get("/jobs"))["jobs"]
    whole = await api.get(f"/jobs/{job['id']}")
    assert (whole["key"], [attempt["worker"] for attempt in whole["history"]]) == ("a", ["w"])


async def _pages(api: Api, query: str) -> list[list[str]]:
    pages, after = [], ""
    while True:
        page = await api.get(f"/jobs?limit=2&{query}&after={after}")
        pages.append([job["key"] for job in page["jobs"]])
        if page["next"] is None:
            return pages
        after = page["next"]


async def test_a_list_goes_on_after_its_cursor(api: Api) -> None:
    await api.submit("a", "b", "c", "d", "e")
    assert await _pages(api, "run=r") == [["a", "b"], ["c", "d"], ["e"]]


async def test_jobs_are_found_by_host_error_and_a_part_of_their_payload(api: Api) -> None:
    jobs = [
        {"kind": "page", "run": "r", "key": f"{host}{n}", "payload": {"url": f"http://{host}/", "q": f"Größe {n}"}}
        for host in "ab"
        for n in range(3)
    ]
    await api.post("/jobs", {"jobs": jobs})
    assert [key for page in await _pages(api, "host=b") for key in page] == ["b0", "b1", "b2"]
    assert [key for page in await _pages(api, "text=größe%202") for key in page] == ["a2", "b2"]
    assert [key for page in await _pages(api, "host=a&text=größe%202") for key in page] == ["a2"]
    assert [key for page in await _pages(api, "error=timeout") for key in page] == []
    await _fail_all(api)
    assert len([key for page in await _pages(api, "error=Time*&state=failed") for key in page]) == 6


async def test_a_search_that_finds_little_reads_a_bounded_number_of_jobs_for_each_page(api: Api) -> None:
    await api.submit(*(f"k{n}" for n in range(6000)))
    first = await api.get("/jobs?text=k5999")
    assert (first["jobs"], first["next"] is not None) == ([], True)
    second = await api.get(f"/jobs?text=k5999&after={first['next']}")
    assert ([job["key"] for job in second["jobs"]], second["next"]) == (["k5999"], None)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=100000", "limit=x", "state=odd", "state=null", "stat=failed", "after=x%2Fy"]
)
async def test_a_list_that_cannot_be_is_refused(api: Api, query: str) -> None:
    status, problem = await api.send("GET", f"/jobs?{query}")
    assert (status, bool(problem["detail"])) == (422, True)


async def test_one_job_is_cancelled_and_retried_by_its_id(api: Api) -> None:
    await api.submit("a")
    (job,) = (await api.get("/jobs"))["jobs"]
    assert (await api.post(f"/jobs/{job['id']}/cancel", {}))["state"] == "cancelled"
    status, problem = await api.send("POST", f"/jobs/{job['id']}/cancel", {})
    assert (status, problem["detail"]) == (409, "The job is cancelled: nothing to cancel.")
    assert (await api.post(f"/jobs/{job['id']}/retry", {}))["state"] == "pending"
    assert (await api.send("POST", "/jobs/999/retry", {}))[0] == 404
    other = api.make(Scope.SUBMIT, runs=["others"])
    assert (await api.send("POST", f"/jobs/{job['id']}/cancel", {}, key=other))[0] == 404


SCHEMA = {
    "type": "object",
    "properties": {"url": {"type": "string", "minLength": 5}, "depth": {"type": "integer", "minimum": 0}},
    "required": ["url"],
}


async def _publish(api: Api, **schemas: Any) -> None:
    state = api.served.queue
    assert isinstance(state, SharedState)
    await publish_schemas(state, schemas)
    assert isinstance(api.served.clock, ManualClock)
    api.served.clock.advance(10)


async def test_a_job_that_its_kind_does_not_take_is_refused_with_every_fault(api: Api) -> None:
    await _publish(api, page=SCHEMA)
    jobs = [{"kind": "page", "payload": payload} for payload in ({"url": "x"}, {"url": "http://a/"}, {"depth": -1})]
    status, problem = await api.send("POST", "/jobs", {"jobs": jobs})
    assert status == 422
    assert sorted(fault.partition(":")[0] for fault in problem["errors"]) == [
        "jobs[0].payload.url",
        "jobs[2].payload",
        "jobs[2].payload.depth",
    ]
    assert (await api.get("/stats")) == {"counts": []}


async def test_a_number_that_is_written_as_a_text_is_taken_as_handlers_take_it(api: Api) -> None:
    await _publish(api, page=SCHEMA)
    body = {"jobs": [{"kind": "page", "payload": {"url": "http://a/", "depth": depth}} for depth in ("3", 4)]}
    assert (await api.send("POST", "/jobs", body))[0] == 200
    body = {"jobs": [{"kind": "page", "payload": {"url": "http://a/", "depth": "three"}}]}
    assert (await api.send("POST", "/jobs", body))[0] == 422


async def test_kinds_are_listed_with_the_payload_they_take(api: Api) -> None:
    await api.submit("a", kind="image")
    await _publish(api, page=SCHEMA)
    assert await api.get("/kinds") == {"kinds": [{"kind": "image", "schema": None}, {"kind": "page", "schema": SCHEMA}]}
    assert (await api.get("/kinds/page"))["schema"] == SCHEMA
    limited = api.make(Scope.READ, kinds=["image"])
    assert [each["kind"] for each in (await api.get("/kinds", key=limited))["kinds"]] == ["image"]
    assert (await api.send("GET", "/kinds/page", key=limited))[0] == 404


@pytest.mark.parametrize(
    "schema",
    [{"type": 5}, {"$ref": "http://127.0.0.1:9/other.json"}, {"$ref": "#/$defs/none"}, {"$ref": "#"}],
    ids=["no schema", "elsewhere", "nowhere", "itself"],
)
async def test_a_schema_that_cannot_be_used_refuses_nothing_and_fetches_nothing(api: Api, schema: Any) -> None:
    await _publish(api, page=schema)
    assert await api.post("/jobs", {"jobs": [_job("a")]}) == {"new": 1, "duplicates": 0}


async def test_a_key_for_work_cannot_publish_what_kinds_take(api: Api) -> None:
    entries = [{"name": "page", "version": "", "value": {"schema": {"type": "null"}}}]
    body = {"namespace": "kinds", "entries": entries}
    assert (await api.send("POST", "/state/swap", body, key=api.make(Scope.WORK)))[0] == 403
