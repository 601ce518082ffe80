"""A request with an `Idempotency-Key` is carried out once, however often it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.server import idempotency
from longshore.server.auth.keys import Scope


def _key(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def _jobs(*keys: str) -> dict[str, Any]:
    return {"jobs": [{"kind": "page", "key": key, "payload": {}} for key in keys]}


async def test_a_request_that_is_sent_again_gets_the_first_answer(api: Api) -> None:
    first = await api.send("POST", "/jobs", _jobs("a"), headers=_key("k"))
    again = await api.send("POST", "/jobs", _jobs("a"), headers=_key("k"))
    assert first == again == (200, {"new": 1, "duplicates": 0})
    assert await api.post("/jobs", _jobs("a")) == {"new": 0, "duplicates": 1}


async def test_the_replayed_answer_says_that_it_is_one(api: Api) -> None:
    for replayed in (None, "true"):
        headers = {"Authorization": f"Bearer {api.key}", **_key("k")}
        async with api._session.post(f"{api.url}/jobs", json=_jobs("a"), headers=headers) as answer:
            assert answer.headers.get("Idempotency-Replayed") == replayed
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_same_key_for_another_request_is_refused(api: Api) -> None:
    await api.send("POST", "/jobs", _jobs("a"), headers=_key("k"))
    for path, body in (("/jobs", _jobs("b")), ("/jobs/cancel", _jobs("a"))):
        status, problem = await api.send("POST", path, body, headers=_key("k"))
        assert (status, "another request" in problem["detail"]) == (422, True)
    assert len((await api.get("/jobs"))["jobs"]) == 1


async def test_a_request_that_is_in_flight_is_not_carried_out_again(api: Api, monkeypatch: Any) -> None:
    arrived, wait = asyncio.Event(), api.medium.wait

    async def waits(*given: Any) -> bool:
        arrived.set()
        return await wait(*given)

    monkeypatch.setattr(api.medium, "wait", waits)
    claim = {"worker": {"label": "a", "incarnation": "b"}, "wait_seconds": 20}
    waiting = asyncio.create_task(api.send("POST", "/claims", claim, headers=_key("k")))
    await arrived.wait()
    status, problem = await api.send("POST", "/claims", claim, headers=_key("k"))
    assert (status, "in flight" in problem["detail"]) == (409, True)
    await api.submit("a")
    status, answer = await waiting
    assert (status, len(answer["jobs"])) == (200, 1)
    assert await api.send("POST", "/claims", claim, headers=_key("k")) == (status, answer)


async def test_keys_of_others_do_not_meet(api: Api) -> None:
    for number in range(2):
        answer = await api.send("POST", "/jobs", _jobs(f"{number}"), headers=_key("k"), key=api.make(Scope.SUBMIT))
        assert answer == (200, {"new": 1, "duplicates": 0})


async def test_a_refusal_is_answered_again_and_an_outage_is_tried_again(api: Api, monkeypatch: Any) -> None:
    wrong = await api.send("POST", "/jobs", {"jobs": 1}, headers=_key("k"))
    assert wrong[0] == 422
    assert await api.send("POST", "/jobs", {"jobs": 1}, headers=_key("k")) == wrong

    async def unavailable(_: Any) -> Any:
        raise QueueUnavailableError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(api.served.queue, "submit", unavailable)
        assert (await api.send("POST", "/jobs", _jobs("a"), headers=_key("other")))[0] == 503
    assert (await api.send("POST", "/jobs", _jobs("a"), headers=_key("other")))[1] == {"new": 1, "duplicates": 0}


async def test_answers_are_forgotten_after_a_day(api: Api) -> None:
    await api.send("POST", "/jobs", _jobs("a"), headers=_key("k"))
    assert isinstance(api.served.clock, ManualClock)
    api.served.clock.advance(25 * 3600)
    assert (await api.send("POST", "/jobs", _jobs("a"), headers=_key("k")))[1] == {"new": 0, "duplicates": 1}


async def test_the_memory_for_answers_is_bounded(api: Api, monkeypatch: Any) -> None:
    monkeypatch.setattr(idempotency, "_MOST_ANSWERS", 3)
    for number in range(6):
        await api.send("POST", "/jobs", _jobs(f"{number}"), headers=_key(f"{number}"))
    assert (await api.send("POST", "/jobs", _jobs("0"), headers=_key("0")))[1] == {"new": 0, "duplicates": 1}
    assert (await api.send("POST", "/jobs", _jobs("5"), headers=_key("5")))[1] == {"new": 1, "duplicates": 0}


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_an_odd_length_is_refused(api: Api, key: str) -> None:
    assert (await api.send("POST", "/jobs", _jobs("a"), headers=_key(key)))[0] == 422
