"""Workers over HTTP: renewals answer with orders and lost leases; hosts and proxies are shown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.queue import Selection
from longshore.server.auth.keys import Scope

WORKER = {"label": "anna", "incarnation": "anna/" + "1" * 32}


async def _renew(api: Api, **more: Any) -> Any:
    return await api.post("/renewals", {"worker": WORKER, "lease_seconds": 60, "info": {"busy": 0}, **more})


async def _claim(api: Api, limit: int) -> list[Any]:
    jobs: list[Any] = (await api.post("/claims", {"worker": WORKER, "limit": limit}))["jobs"]
    return jobs


@pytest.mark.parametrize("order", ["drain", "stop"])
async def test_a_renewal_answers_with_the_order_that_a_person_gave(api: Api, order: str) -> None:
    assert "order" not in await _renew(api)
    (listed,) = (await api.get("/workers"))["workers"]
    named = {"label": listed["label"], "incarnation": listed["incarnation"]}
    assert await api.post("/workers/orders", {**named, "order": order}) == {"ordered": True}
    assert (await _renew(api))["order"] == order


async def test_a_worker_that_was_started_again_is_not_meant_by_the_order_to_the_one_before(api: Api) -> None:
    await _renew(api)
    (listed,) = (await api.get("/workers"))["workers"]
    named = {"label": listed["label"], "incarnation": listed["incarnation"]}
    await api.post("/workers/orders", {**named, "order": "drain"})
    again = {"label": "anna", "incarnation": "anna/" + "2" * 32}
    assert "order" not in await api.post("/renewals", {"worker": again, "lease_seconds": 60})


async def test_an_order_needs_an_admin_and_a_worker_that_is_there(api: Api) -> None:
    body = {"label": "anna", "incarnation": "anna/1", "order": "drain"}
    assert (await api.send("POST", "/workers/orders", body))[0] == 404
    assert (await api.send("POST", "/workers/orders", body, key=api.make(Scope.WORK, Scope.SUBMIT)))[0] == 403
    assert (await api.send("POST", "/workers/orders", body | {"order": "dance"}))[0] == 422


async def test_a_renewal_says_which_of_the_given_leases_are_lost(api: Api) -> None:
    await api.submit("a", "b", "c")
    leases = {each["job"]["key"]: each["lease"] for each in await _claim(api, 3)}
    await api.served.queue.cancel(Selection(ids=frozenset({"2"})))
    answer = await _renew(api, leases=[*leases.values(), "forged"])
    assert answer["lost"] == [leases["b"], "forged"]
    assert len(answer["held"]) == 2


async def test_hosts_and_proxies_are_shown_to_keys_for_the_whole_queue(api: Api) -> None:
    assert await api.get("/hosts") == {"hosts": []}
    assert await api.get("/proxies") == {"proxies": []}
    limited = api.make(Scope.READ, runs=["r"])
    for path in ("/hosts", "/proxies"):
        assert (await api.send("GET", path, key=limited))[0] == 404


async def test_a_key_for_some_runs_sees_only_workers_that_may_work_on_them(api: Api) -> None:
    for label, run in (("anna", "ours"), ("bert", "theirs"), ("carl", None)):
        worker = {"label": label, "incarnation": label}
        await api.post("/renewals", {"worker": worker, "lease_seconds": 60, "info": {"run": run}})
    limited = api.make(Scope.READ, runs=["ours"])
    assert [each["label"] for each in (await api.get("/workers", key=limited))["workers"]] == ["anna", "carl"]
