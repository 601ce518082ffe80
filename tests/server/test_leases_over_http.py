"""A lease over HTTP is a token: who does not have it, or has it with another key, can change nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.errors import UsageError
from longshore.server.auth.keys import Scope


async def test_a_job_is_claimed_settled_and_the_next_claimed_in_one_call(api: Api) -> None:
    await api.submit("a", "b")
    (first,) = await api.claim()
    worker = {"label": "anna", "incarnation": "anna/1"}
    outcome = {"type": "completed", "result": 1}
    body = {"settlements": [{"lease": first["lease"], "outcome": outcome}], "claim": {"worker": worker}}
    answer = await api.post("/settlements", body)
    assert answer["accepted"] == [True]
    assert [job["job"]["key"] for job in answer["jobs"]] == ["b"]


async def test_a_follow_on_job_is_claimed_in_the_call_that_adds_it(api: Api) -> None:
    await api.submit("a")
    (first,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": "page", "key": "b", "payload": {}}]}
    claim = {"worker": {"label": "anna", "incarnation": "anna/1"}}
    answer = await api.post(
        "/settlements", {"settlements": [{"lease": first["lease"], "outcome": outcome}], "claim": claim}
    )
    assert answer["accepted"] == [True]
    assert [job["job"]["key"] for job in answer["jobs"]] == ["b"]


@pytest.mark.parametrize("claim_id", ["", "c1"])
async def test_if_the_settlement_is_refused_the_next_job_is_not_kept(api: Api, claim_id: str) -> None:
    await api.submit("a", "b")
    (first,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": "page", "key": "c", "payload": {}}]}
    claim = {"worker": {"label": "anna", "incarnation": "anna/1"}, "claim_id": claim_id}
    body = {"settlements": [{"lease": first["lease"], "outcome": outcome}], "claim": claim}

    async def refuse(settlements: Any) -> list[bool]:
        raise UsageError("it cannot be stored")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api.medium, "settle", _once(refuse, api.medium.settle))
        assert (await api.send("POST", "/settlements", body))[0] == 422
    held = {job["key"]: (job["state"], job["attempts"]) for job in (await api.get("/jobs"))["jobs"]}
    assert held == {"a": ("claimed", 0), "b": ("pending", 0)}
    assert [job["job"]["key"] for job in (await api.post("/claims", claim))["jobs"]] == ["b"]


def _once(first: Any, then: Any) -> Any:
    calls = iter([first])

    async def call(*arguments: Any) -> Any:
        return await next(calls, then)(*arguments)

    return call


async def test_a_stale_lease_is_refused_and_nothing_is_written(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    assert (await api.settle(claimed["lease"], "first"))[1]["accepted"] == [True]
    assert (await api.settle(claimed["lease"], "second"))[1]["accepted"] == [False]
    assert (await api.send("GET", f"/jobs/{claimed['job']['id']}"))[1]["result"] == "first"


def _forged(token: str) -> list[str]:
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    flipped = bytes([raw[0] ^ 1]) + raw[1:]
    other_epoch = raw.replace(b",1,", b",2,", 1)
    made = [flipped, other_epoch, raw[16:], raw[:16], raw + b" ", b""]
    return [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in made] + ["", "x", "é", "A" * 100_000, "\0"]


async def test_a_forged_lease_is_refused(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    for token in _forged(claimed["lease"]):
        status, problem = await api.settle(token)
        assert (status, problem["title"]) == (409, "The lease is lost"), token
    assert (await api.settle(claimed["lease"]))[1]["accepted"] == [True]


async def test_the_lease_of_one_key_is_worth_nothing_with_another(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim(key=api.make(Scope.WORK))
    assert (await api.settle(claimed["lease"], key=api.make(Scope.WORK)))[0] == 409


async def test_a_worker_with_the_same_name_and_another_key_is_another_worker(api: Api) -> None:
    await api.submit("a")
    mine, theirs = api.make(Scope.WORK), api.make(Scope.WORK)
    (claimed,) = await api.claim(key=mine)
    worker = {"label": "anna", "incarnation": "anna/1"}
    renewal = {"worker": worker, "lease_seconds": 60}
    held = [{"job": claimed["job"]["id"], "epoch": 1}]
    assert await api.post("/renewals", renewal, key=theirs) == {"held": []}
    assert await api.post("/renewals", renewal, key=mine) == {"held": held}
    (token,) = (await api.post("/leases", {"worker": worker, "held": held}, key=theirs))["leases"]
    assert (await api.settle(token, key=theirs))[1]["accepted"] == [False]
    (token,) = (await api.post("/leases", {"worker": worker, "held": held}, key=mine))["leases"]
    assert (await api.settle(token, key=mine))[1]["accepted"] == [True]


async def test_the_list_of_workers_does_not_tell_how_to_act_as_one(api: Api) -> None:
    secret = "c0ffee" * 4
    worker = {"label": "anna", "incarnation": f"anna/12345678{secret}"}
    await api.post("/renewals", {"worker": worker, "lease_seconds": 60, "info": {"busy": 1}})
    await api.submit("a")
    await api.post("/claims", {"worker": worker})
    listed = (await api.send("GET", "/workers"))[1]["workers"]
    assert [(each["label"], each["incarnation"]) for each in listed] == [("anna", "anna/12345678")]
    shown = {"label": listed[0]["label"], "incarnation": listed[0]["incarnation"]}
    assert await api.post("/renewals", {"worker": shown, "lease_seconds": 60}) == {"held": []}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"worker": None},
        {"worker": {"label": "a"}},
        {"worker": {"label": "a", "incarnation": "b"}, "limit": -1},
        {"worker": {"label": "a", "incarnation": "b"}, "limit": 10**9},
        {"worker": {"label": "a", "incarnation": "b"}, "limit": "1"},
        {"worker": {"label": "a", "incarnation": "b"}, "lease_seconds": 0},
        {"worker": {"label": "a", "incarnation": "b"}, "lease_seconds": -1},
        {"worker": {"label": "a", "incarnation": "b"}, "lease_seconds": 1e300},
        {"worker": {"label": "a" * 6000, "incarnation": "b"}},
        {"worker": {"label": "a", "incarnation": "b"}, "admin": True},
        [],
        "x",
    ],
)
async def test_a_claim_that_cannot_be_is_refused(api: Api, body: Any) -> None:
    status, problem = await api.send("POST", "/claims", body)
    assert status in {400, 422}
    assert problem["detail"]


async def test_a_lease_may_not_last_longer_than_the_limit(api: Api) -> None:
    worker = {"label": "a", "incarnation": "b"}
    body = {"worker": worker, "lease_seconds": 366 * 24 * 3600}
    assert (await api.send("POST", "/claims", body, key=api.make(Scope.WORK)))[0] == 422


async def test_an_attempt_adds_no_more_follow_on_jobs_than_the_limit(api: Api) -> None:
    await api.submit("a")
    key = api.make(Scope.WORK)
    (claimed,) = await api.claim(key=key)
    most = api.served.limits.follow_ons
    outcome = {"type": "completed", "jobs": [{"kind": "page", "payload": {}}] * (most + 1)}
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    headers = {"Content-Type": "application/json"}
    status, problem = await api.send("POST", "/settlements", data=json.dumps(body).encode(), key=key, headers=headers)
    assert (status, f"{most:,} follow-on jobs" in problem["detail"]) == (422, True)
    assert (await api.settle(claimed["lease"], key=key))[1] == {"accepted": [True], "jobs": []}


async def test_no_worker_gets_a_job_of_a_paused_run(api: Api) -> None:
    await api.submit("a")
    pause = {"namespace": "runs-paused", "entries": [{"name": "r", "version": "", "value": {}}]}
    await api.post("/state/swap", pause)
    assert await api.claim(key=api.make(Scope.WORK)) == []


@pytest.mark.parametrize("way", ["/state/swap", "/runs/pause"])
async def test_a_pause_that_was_answered_holds_for_the_next_claim(api: Api, way: str) -> None:
    """The server has just read that nothing is paused, and no time passes."""
    await api.submit("a", "b")
    assert len(await api.claim()) == 1
    swap = {"namespace": "runs-paused", "entries": [{"name": "r", "version": "", "value": {}}]}
    await api.post(way, swap if way == "/state/swap" else {"run": "r"})
    assert await api.claim("bert", key=api.make(Scope.WORK)) == []
    await api.post("/runs/resume", {"run": "r"})
    assert len(await api.claim("carl")) == 1


async def _settle_with_follow_on_jobs(api: Api, number: int) -> None:
    (claimed,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": "page", "payload": {"n": n}} for n in range(number)]}
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    assert (await api.post("/settlements", body))["accepted"] == [True]


async def test_limits_that_were_answered_hold_for_the_next_settlement(api: Api) -> None:
    """The server has just read that the run has none, and no time passes."""
    await api.submit("a", "b")
    await _settle_with_follow_on_jobs(api, 1)
    limits = {"namespace": "runs", "entries": [{"name": "r", "version": "", "value": {"max_jobs": 3}}]}
    await api.post("/state/swap", limits)
    await _settle_with_follow_on_jobs(api, 10)
    assert len((await api.get("/jobs"))["jobs"]) == 3


async def test_jobs_that_were_pruned_need_room_again_within_the_limit_of_their_run(api: Api) -> None:
    limits = {"namespace": "runs", "entries": [{"name": "r", "version": "", "value": {"max_jobs": 4}}]}
    for _ in range(2):
        # They are pruned with the run.
        assert (await api.post("/state/swap", limits))["versions"] != [None]
        await api.submit("a")
        await _settle_with_follow_on_jobs(api, 10)
        assert len((await api.get("/jobs"))["jobs"]) == 4
        await api.post("/jobs/cancel", {"where": {"run": "r"}})
        assert await api.post("/jobs/prune", {"where": {"run": "r"}}) == {"changed": 4}


async def test_a_run_grows_no_deeper_than_its_limit(api: Api) -> None:
    await api.submit("a")
    limits = {"namespace": "runs", "entries": [{"name": "r", "version": "", "value": {"max_depth": 0}}]}
    await api.post("/state/swap", limits)
    (claimed,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": "page", "payload": {"n": 2}}]}
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    assert (await api.post("/settlements", body))["accepted"] == [True]
    assert [job["key"] for job in (await api.send("GET", "/jobs"))[1]["jobs"]] == ["a"]


async def test_a_run_has_no_more_follow_on_jobs_than_its_limit(api: Api) -> None:
    await api.submit("a")
    limits = {"namespace": "runs", "entries": [{"name": "r", "version": "", "value": {"max_jobs": 3}}]}
    await api.post("/state/swap", limits)
    (claimed,) = await api.claim()
    outcome = {"type": "completed", "jobs": [{"kind": "page", "payload": {"n": n}} for n in range(10)]}
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    assert (await api.post("/settlements", body, key=api.key))["accepted"] == [True]
    assert len((await api.get("/jobs"))["jobs"]) == 3
    assert (await api.get("/runs/details?run=r"))["limits"] == {"max_jobs": 3}
