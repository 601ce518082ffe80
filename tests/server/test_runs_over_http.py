"""Runs over HTTP: the figures of `longshore top`, pause and resume, and the health of it all."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.errors import Failure, QueueUnavailableError
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Failed, Settlement
from longshore.server.auth.keys import Scope


async def _settle(api: Api, completed: int, failed: int, run: str = "r") -> None:
    leases = await api.served.queue.claim(Want(worker=WorkerId("w", "w"), run=run, limit=completed + failed))
    failure = Failed(Failure("timeout", "http://a/1 took too long", retryable=False))
    outcomes = [Completed(1)] * completed + [failure] * failed
    await api.served.queue.settle([Settlement(lease, outcome) for lease, outcome in zip(leases, outcomes, strict=True)])


async def test_runs_are_listed_page_by_page_with_their_progress(api: Api) -> None:
    for run in ("c", "a", "b"):
        await api.submit("1", "2", run=run)
    await _settle(api, 1, 0, run="b")
    first = await api.get("/runs?limit=2")
    assert [(each["run"], each["count"]["completed"]) for each in first["runs"]] == [("a", 0), ("b", 1)]
    last = await api.get(f"/runs?limit=2&after={first['next']}")
    assert ([each["run"] for each in last["runs"]], last["next"]) == (["c"], None)


async def test_a_run_shows_its_failures_by_kind_its_partitions_hosts_and_workers(api: Api) -> None:
    jobs = [
        {"kind": "page", "run": "r", "partition": p, "payload": {"url": f"http://{p}/"}} for p in ("CA", "NY", "TX")
    ]
    await api.post("/jobs", {"jobs": jobs})
    await _settle(api, 1, 1)
    seen = await api.get("/runs/details?run=r")
    assert {lane["count"]["partition"] for lane in seen["lanes"]} == {"CA", "NY", "TX"}
    assert (seen["count"]["completed"], seen["count"]["failed"], seen["count"]["pending"]) == (1, 1, 1)
    assert seen["paused_since"] is None
    assert {"estimate", "throughput", "workers", "hosts", "failures"} <= seen.keys()


@pytest.mark.parametrize("path", ["/runs/details?run=nothing", "/runs/details?run=r%00", "/runs/details?run=*"])
async def test_a_run_that_is_not_there_is_not_found(api: Api, path: str) -> None:
    assert (await api.send("GET", path))[0] in {404, 422}


async def test_another_ones_run_is_not_found(api: Api) -> None:
    await api.submit("1", run="ours")
    await api.submit("1", run="theirs")
    key = api.make(Scope.READ, runs=["ours"])
    assert [each["run"] for each in (await api.get("/runs", key=key))["runs"]] == ["ours"]
    assert (await api.send("GET", "/runs/details?run=theirs", key=key))[0] == 404
    assert (await api.get("/runs/details?run=ours", key=key))["count"]["pending"] == 1


async def test_a_run_is_paused_and_resumed_by_an_admin(api: Api) -> None:
    await api.submit("1")
    assert (await api.send("POST", "/runs/pause", {"run": "r"}, key=api.make(Scope.SUBMIT, Scope.WORK)))[0] == 403
    assert await api.post("/runs/pause", {"run": "r"}) == {"changed": True}
    assert await api.post("/runs/pause", {"run": "r"}) == {"changed": False}
    assert await api.claim() == []
    assert (await api.get("/runs/details?run=r"))["paused_since"] is not None
    assert await api.post("/runs/resume", {"run": "r"}) == {"changed": True}
    assert (await api.send("POST", "/runs/pause", {"run": "x"}))[0] == 404
    assert await api.post("/runs/pause", {"everything": True}) == {"changed": True}


@pytest.mark.parametrize("body", [{}, {"run": "*"}, {"run": "r", "everything": True}, {"everything": False}])
async def test_a_pause_that_says_nothing_is_refused(api: Api, body: Any) -> None:
    assert (await api.send("POST", "/runs/pause", body))[0] == 422


async def test_capabilities_tell_the_version_the_limits_and_what_the_queue_can_do(api: Api) -> None:
    for scope in Scope:
        seen = await api.get("/capabilities", key=api.make(scope))
        assert (seen["version"], seen["read_only"]) == (version("longshore"), False)
        assert (seen["traits"]["name"], seen["traits"]["keeps_traces"]) == ("memory", True)
    limits = seen["limits"]
    worker = {"label": "a", "incarnation": "b"}
    key = api.make(Scope.WORK)
    for name, told in (("limit", "claim"), ("lease_seconds", "lease_seconds")):
        for more, status in ((0, 200), (1, 422)):
            body = {"worker": worker, name: limits[told] + more}
            assert (await api.send("POST", "/claims", body, key=key))[0] == status, (name, more)
    assert (await api.send("GET", f"/jobs?limit={limits['page']}"))[0] == 200
    assert (await api.send("GET", f"/jobs?limit={limits['page'] + 1}"))[0] == 422


async def test_health_says_whether_jobs_wait_for_a_worker(api: Api) -> None:
    assert (await api.get("/health"))["status"] == "ok"
    await api.submit("1")
    seen = await api.get("/health")
    assert (seen["status"], seen["workers"], seen["count"]["pending"]) == ("degraded", 0, 1)
    worker = {"label": "a", "incarnation": "a"}
    await api.post("/renewals", {"worker": worker, "lease_seconds": 60, "info": {"kinds": ["image"]}})
    assert (await api.get("/health"))["kinds_without_worker"] == ["page"]
    await api.post("/renewals", {"worker": worker, "lease_seconds": 60, "info": {"kinds": ["page"]}})
    assert (await api.get("/health"))["status"] == "ok"
    assert (await api.send("GET", "/health", key=api.make(Scope.WORK)))[0] == 403


async def test_health_says_that_the_queue_does_not_answer_and_shows_no_secret(api: Api, monkeypatch: Any) -> None:
    async def gone(*_: Any) -> Any:
        raise QueueUnavailableError("no answer from postgresql://user:secret@db/x")

    monkeypatch.setattr(api.served.queue, "stats", gone)
    status, seen = await api.send("GET", "/health")
    assert (status, seen["status"], "secret" in str(seen)) == (503, "unavailable", False)
    assert (await api.send("GET", "/health/ready", headers={"Authorization": ""}))[0] == 503
    assert (await api.send("GET", "/health/live", headers={"Authorization": ""}))[0] == 200
