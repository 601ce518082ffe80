"""The plain task routes, as a worker in any language calls them (E1)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.clock import ManualClock
from longshore.server.auth.keys import Scope


@pytest.fixture
def tasks(api: Api) -> Api:
    api.url = api.url.removesuffix("/v1")
    return api


async def created(tasks: Api, **fields: Any) -> Any:
    status, task = await tasks.send("POST", "/tasks", {"type": "echo", "params": {"n": 1}} | fields)
    assert status == 201, task
    return task


async def claimed(tasks: Api, **fields: Any) -> Any:
    return await tasks.post("/tasks/claim", {"worker_id": "w1"} | fields)


@pytest.mark.ledger("E1")
async def test_a_task_is_created_claimed_and_completed(tasks: Api) -> None:
    made = await created(tasks)
    assert (made["status"], made["type"], made["params"], made["run"]) == ("pending", "echo", {"n": 1}, "tasks")
    task = await claimed(tasks)
    assert (task["id"], task["type"], task["params"], task["attempt"]) == (made["id"], "echo", {"n": 1}, 1)
    answer = await tasks.post(f"/tasks/{task['id']}/complete", {"lease": task["lease"], "result": {"ok": True}})
    assert answer == {"id": made["id"], "status": "completed"}
    _, done = await tasks.send("GET", f"/tasks/{made['id']}")
    assert (done["status"], done["result"], done["worker_id"], done["attempts"]) == ("completed", {"ok": True}, "w1", 1)


async def test_every_call_creates_a_task_and_a_key_makes_it_one(tasks: Api) -> None:
    assert (await created(tasks))["id"] != (await created(tasks))["id"]
    first = await created(tasks, key="today")
    status, second = await tasks.send("POST", "/tasks", {"type": "echo", "params": {"n": 2}, "key": "today"})
    assert (status, second["id"], second["params"]) == (200, first["id"], {"n": 1})


async def test_there_is_nothing_to_claim_in_an_empty_queue(tasks: Api) -> None:
    assert await tasks.send("POST", "/tasks/claim", {"worker_id": "w1"}) == (204, None)


async def test_only_wanted_types_and_runs_are_claimed(tasks: Api) -> None:
    await created(tasks, run="r")
    assert (await tasks.send("POST", "/tasks/claim", {"worker_id": "w1", "types": ["other"]}))[0] == 204
    assert (await tasks.send("POST", "/tasks/claim", {"worker_id": "w1", "run": "s"}))[0] == 204
    assert (await claimed(tasks, types=["echo"], run="r"))["type"] == "echo"


async def test_a_failed_task_is_tried_again_until_no_attempt_is_left(tasks: Api) -> None:
    made = await created(tasks, max_attempts=2)
    for expected in ("pending", "failed"):
        task = await claimed(tasks)
        error = {"lease": task["lease"], "error": "no answer from https://u:secret@host/", "error_type": "connection"}
        assert (await tasks.post(f"/tasks/{task['id']}/fail", error))["status"] == expected
        clock = tasks.served.clock
        assert isinstance(clock, ManualClock)
        clock.advance(10)
    _, failed = await tasks.send("GET", f"/tasks/{made['id']}")
    assert (failed["status"], failed["error"]["error_type"]) == ("failed", "connection")
    assert "secret" not in failed["error"]["message"]


@pytest.mark.parametrize("error", [{"error_type": "validation"}, {"retryable": False}])
async def test_an_error_that_no_attempt_helps_fails_the_task_at_once(tasks: Api, error: dict[str, Any]) -> None:
    await created(tasks)
    task = await claimed(tasks)
    answer = await tasks.post(f"/tasks/{task['id']}/fail", {"lease": task["lease"], "error": "n must be even"} | error)
    assert answer["status"] == "failed"


@pytest.mark.ledger("E5")
async def test_a_result_without_success_is_a_failure(tasks: Api) -> None:
    await created(tasks)
    task = await claimed(tasks)
    result = {"success": False, "error": "quota", "error_type": "QuotaError", "retryable": False}
    body = {"lease": task["lease"], "result": result}
    assert (await tasks.post(f"/tasks/{task['id']}/complete", body))["status"] == "failed"
    error = (await tasks.send("GET", f"/tasks/{task['id']}"))[1]["error"]
    assert (error["message"], error["exception"]) == ("quota", "QuotaError")


async def test_a_released_task_is_pending_and_no_attempt_counts(tasks: Api) -> None:
    await created(tasks)
    task = await claimed(tasks)
    assert (await tasks.post(f"/tasks/{task['id']}/release", {"lease": task["lease"]}))["status"] == "pending"
    assert (await tasks.send("GET", f"/tasks/{task['id']}"))[1]["attempts"] == 0


VERBS: dict[str, dict[str, Any]] = {"complete": {"result": 1}, "fail": {"error": "x"}, "release": {}, "renew": {}}


@pytest.mark.ledger("F2")
@pytest.mark.parametrize("verb", VERBS)
async def test_nothing_is_settled_without_the_lease_or_with_a_stale_one(tasks: Api, verb: str) -> None:
    await created(tasks)
    await created(tasks)
    task, other = await claimed(tasks), await claimed(tasks)
    path, body = f"/tasks/{task['id']}/{verb}", VERBS[verb]
    for wrong in ({}, {"lease": ""}, {"lease": "forged"}, {"lease": other["lease"]}):
        status, problem = await tasks.send("POST", path, body | wrong)
        assert (status, problem["title"]) == (409, "The lease is lost"), wrong
        assert problem["detail"]
    assert (await tasks.send("POST", path, body | {"lease": task["lease"]}, key=tasks.make(Scope.WORK)))[0] == 409
    await tasks.post(f"/tasks/{task['id']}/complete", {"lease": task["lease"], "result": "first"})
    assert (await tasks.send("POST", path, body | {"lease": task["lease"]}))[0] == 409
    assert (await tasks.send("GET", f"/tasks/{task['id']}"))[1]["result"] == "first"


async def test_the_task_of_a_dead_worker_comes_back_although_its_namesake_works_on(tasks: Api) -> None:
    clock = tasks.served.clock
    assert isinstance(clock, ManualClock)
    first, second = await created(tasks), await created(tasks)
    dead, alive = await claimed(tasks, lease_seconds=60), await claimed(tasks, lease_seconds=60)
    assert (dead["id"], alive["id"]) == (first["id"], second["id"])
    for _ in range(4):
        clock.advance(20)
        renewal = {"lease": alive["lease"], "lease_seconds": 60}
        assert (await tasks.post(f"/tasks/{alive['id']}/renew", renewal))["id"] == alive["id"]
    again = await claimed(tasks)
    assert (again["id"], again["attempt"]) == (dead["id"], 2)
    late = {"lease": dead["lease"], "result": "late"}
    assert (await tasks.send("POST", f"/tasks/{dead['id']}/complete", late))[0] == 409
    assert (await tasks.send("POST", f"/tasks/{dead['id']}/renew", {"lease": dead["lease"]}))[0] == 409


async def test_a_worker_that_asks_for_tasks_is_present(tasks: Api) -> None:
    await tasks.send("POST", "/tasks/claim", {"worker_id": "w1", "types": ["b", "a"]})
    _, answer = await tasks.send("GET", "/v1/workers")
    assert [(each["label"], each["info"]["kinds"]) for each in answer["workers"]] == [("w1", ["a", "b"])]


@pytest.mark.ledger("E12")
@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.SUBMIT, {"POST /tasks"}),
        (Scope.WORK, {"POST /tasks/claim", "GET /tasks/1", "POST /tasks/1/complete"}),
        (Scope.READ, {"GET /tasks/1"}),
    ],
)
async def test_each_route_needs_its_scope(tasks: Api, scope: Scope, allowed: set[str]) -> None:
    await created(tasks)
    key = tasks.make(scope)
    bodies = {
        "POST /tasks": {"type": "echo"},
        "POST /tasks/claim": {"worker_id": "w"},
        "GET /tasks/1": None,
        "POST /tasks/1/complete": {},
    }
    for route, body in bodies.items():
        method, path = route.split()
        status, _ = await tasks.send(method, path, body, key=key)
        assert (status != 403) == (route in allowed), route
        assert (await tasks.send(method, path, body, key="wrong"))[0] == 401


async def test_a_key_sees_and_claims_nothing_outside_its_runs(tasks: Api) -> None:
    made = await created(tasks, run="theirs")
    key = tasks.make(Scope.WORK, Scope.SUBMIT, runs=["mine"])
    assert (await tasks.send("GET", f"/tasks/{made['id']}", key=key))[0] == 404
    assert (await tasks.send("POST", "/tasks/claim", {"worker_id": "w"}, key=key))[0] == 204
    assert (await tasks.send("POST", "/tasks", {"type": "echo", "run": "theirs"}, key=key))[0] == 404
    assert (await tasks.send("POST", "/tasks", {"type": "echo", "run": "mine"}, key=key))[0] == 201


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tasks", {}),
        ("/tasks", {"type": ""}),
        ("/tasks", {"type": "echo", "params": []}),
        ("/tasks", {"type": "echo", "unknown": 1}),
        ("/tasks", {"type": "echo", "max_attempts": 0}),
        ("/tasks/claim", {}),
        ("/tasks/claim", {"worker_id": "w", "lease_seconds": 0}),
        ("/tasks/claim", {"worker_id": "w", "wait_seconds": -1}),
        ("/tasks/claim", {"worker_id": "w" * 6000}),
        ("/tasks/1/fail", {}),
    ],
)
async def test_a_wrong_request_is_refused_with_its_fault(tasks: Api, path: str, body: Any) -> None:
    status, problem = await tasks.send("POST", path, body)
    assert status == 422, problem
    assert problem["detail"]


@pytest.mark.parametrize("task_id", ["9", "x", "..%2f..", "%00", "%ff", "1%20or%201"])
async def test_an_unknown_task_is_not_found(tasks: Api, task_id: str) -> None:
    assert (await tasks.send("GET", f"/tasks/{task_id}"))[0] in {400, 404, 422}


async def test_health_needs_no_key(tasks: Api) -> None:
    assert await tasks.send("GET", "/health", headers={"Authorization": ""}) == (200, {"status": "healthy"})


async def test_the_routes_are_in_the_openapi_document(tasks: Api) -> None:
    _, document = await tasks.send("GET", "/v1/schema/openapi.json")
    paths = document["paths"]
    routes = {path for path in paths if path.startswith("/api/tasks") or path == "/api/health"}
    verbs = ("complete", "fail", "release", "renew")
    named = {"/api/health", "/api/tasks", "/api/tasks/claim", "/api/tasks/{task_id}"}
    assert routes == named | {f"/api/tasks/{{task_id}}/{verb}" for verb in verbs}
    assert set(paths["/api/tasks/claim"]["post"]["responses"]) >= {"200", "204"}
