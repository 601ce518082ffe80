"""Names and outcomes have a greatest size of their own, on every route that takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.conftest import Api
from tests.server.page.conftest import Visitor, visitor

from longshore.extensions.find import require
from longshore.extensions.shared_state import SharedState

__all__ = ["visitor"]

JSON = {"Content-Type": "application/json"}
LONG, LONG_KEY = "é" * 1001, "é" * 5001


@pytest.mark.parametrize("name", ["run", "kind", "partition", "host", "key"])
async def test_a_job_with_a_name_that_is_too_long_is_refused(api: Api, name: str) -> None:
    most = (await api.get("/capabilities"))["limits"]["key" if name == "key" else "name"]
    job = {"kind": "page", "run": "r", "payload": {}, name: "é" * (most + 1)}
    status, problem = await api.send("POST", "/jobs", {"jobs": [job]})
    assert (status, problem["detail"]) == (
        422,
        f"The {name} of a job may have {most:,} characters, not {most + 1:,}.",
    )
    assert (await api.post("/jobs", {"jobs": [job | {name: "é" * most}]}))["new"] == 1


async def test_a_task_and_a_follow_on_job_with_a_long_name_are_refused(api: Api) -> None:
    assert (await api.send("POST", "/../tasks", {"type": LONG}))[0] == 422
    assert (await api.send("POST", "/../tasks", {"type": "page", "key": LONG_KEY}))[0] == 422
    await api.submit("a")
    (claimed,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": LONG, "payload": {}}]}
    settlement = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    status, problem = await api.send("POST", "/settlements", settlement)
    assert (status, "The kind of a job may have 1,000 characters" in problem["detail"]) == (422, True)
    assert (await api.settle(claimed["lease"]))[1]["accepted"] == [True]


async def test_a_form_with_a_long_name_is_refused(visitor: Visitor) -> None:
    await visitor.log_in()
    answer = await visitor.post("/submit", {"kind": LONG, "run": "r", "lines": "https://a.test/"})
    assert (answer.status, "may have 1,000 characters" in answer.text) == (422, True)


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        ("result", {"type": "completed", "result": "x" * 16_777_215}),
        ("failure", {"type": "failed", "failure": {"error_type": "unknown", "message": "x" * 16_777_216}}),
    ],
)
async def test_an_outcome_that_is_too_large_is_refused_and_the_lease_stays(
    api: Api, what: str, outcome: dict[str, Any]
) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    status, problem = await api.send("POST", "/settlements", data=json.dumps(body).encode(), headers=JSON)
    assert status == 422
    assert problem["detail"].startswith(f"A {what} may have 16,777,216 bytes as JSON, not 16,777,")
    assert (await api.settle(claimed["lease"], "x" * 100_000))[1]["accepted"] == [True]


@pytest.mark.parametrize(("verb", "field"), [("complete", "result"), ("fail", "error")])
async def test_a_task_with_an_outcome_that_is_too_large_keeps_its_lease(api: Api, verb: str, field: str) -> None:
    await api.post("/jobs", {"jobs": [{"kind": "page", "payload": {}}]})
    task = await api.post("/../tasks/claim", {"worker_id": "anna"})
    path, lease = f"/../tasks/{task['id']}", {"lease": task["lease"]}
    status, problem = await api.send(
        "POST", f"{path}/{verb}", data=json.dumps(lease | {field: "x" * 17_000_000}).encode(), headers=JSON
    )
    assert (status, "may have 16,777,216 bytes" in problem["detail"]) == (422, True)
    assert (await api.post(f"{path}/complete", lease | {"result": 1}))["status"] == "completed"


@pytest.mark.parametrize(
    ("namespace", "name", "value"),
    [("p" * 1001, "a.test", 1), ("pace", LONG_KEY, 1), ("pace", "a.test", "x" * 2_000_000)],
    ids=["namespace", "name", "value"],
)
async def test_a_shared_entry_that_is_too_large_is_refused(api: Api, namespace: str, name: str, value: Any) -> None:
    entry = {"name": name, "value": value, "version": ""}
    status, problem = await api.send(
        "POST", "/state/swap", data=json.dumps({"namespace": namespace, "entries": [entry]}).encode(), headers=JSON
    )
    assert (status, "may have" in problem["detail"]) == (422, True)
    state = require(api.served.queue, SharedState, "lacks it")
    assert (await state.read_entries("pace")).entries == ()
