"""Long polls: a job wakes one of them, an answer that was lost comes again, and a server that stops ends them all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from tests.server.conftest import Api

from longshore.lease import Want
from longshore.server.auth.keys import Scope
from longshore.server.served import Served
from longshore.wrappers.worker_queue import WorkerQueue


def _claim(label: str) -> dict[str, Any]:
    return {"worker": {"label": label, "incarnation": f"{label}/1"}, "wait_seconds": 20}


def claiming(api: Api, label: str, **fields: Any) -> asyncio.Task[list[Any]]:
    """Begin a claim that waits."""
    body = _claim(label) | fields

    async def claim() -> list[Any]:
        jobs: list[Any] = (await api.post("/claims", body))["jobs"]
        return jobs

    return asyncio.create_task(claim())


async def waiting(served: Served, number: int) -> None:
    """Return when this many polls wait."""
    while sum(len(group.waiters) for group in served.waiting._groups.values()) != number:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class Counted(WorkerQueue):
    """Counts the claims and waits that reach the queue."""

    claims = waits = 0

    async def claim(self, want: Want) -> list[Any]:
        self.claims += 1
        return await super().claim(want)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        self.waits += 1
        return await super().wait(want, timeout)


def counting(api: Api) -> Counted:
    queue = Counted(api.served.queue, api.served.clock)
    object.__setattr__(api.served, "working", queue)
    return queue


async def test_any_number_of_polls_wait_with_one_call_and_one_job_wakes_one_of_them(api: Api) -> None:
    queue = counting(api)
    polls = [claiming(api, f"w{number}") for number in range(50)]
    await waiting(api.served, 50)
    while not queue.waits:  # noqa: ASYNC110 (the group begins to watch)
        await asyncio.sleep(0.001)
    assert (queue.claims, queue.waits) == (50, 1)
    await api.submit("a")
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert [[job["job"]["key"] for job in poll.result()] for poll in done] == [["a"]]
    await waiting(api.served, 49)
    assert queue.claims - 50 <= 3
    api.served.closing.set()
    assert await asyncio.gather(*set(polls) - done) == [[]] * 49


async def test_jobs_that_come_one_after_the_other_wake_one_poll_each(api: Api) -> None:
    """However quickly they follow each other: if each job woke twice as many as the one before, all would wake."""
    queue = counting(api)
    polls = {claiming(api, f"w{number}") for number in range(50)}
    await waiting(api.served, 50)
    for number in range(12):
        await api.submit(str(number))
        done, polls = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        await waiting(api.served, len(polls))
    assert queue.claims - 50 <= 36
    api.served.closing.set()
    await asyncio.gather(*polls)


async def test_every_poll_gets_a_job_if_there_are_enough(api: Api) -> None:
    polls = [claiming(api, f"w{number}") for number in range(30)]
    await waiting(api.served, 30)
    await api.submit(*map(str, range(30)))
    answers = await asyncio.gather(*polls)
    assert sorted(int(job["job"]["key"]) for answer in answers for job in answer) == list(range(30))


async def test_polls_for_different_jobs_do_not_take_each_other_their_turn(api: Api) -> None:
    other, mine = claiming(api, "a", kinds=["other"]), claiming(api, "b", kinds=["page"])
    await waiting(api.served, 2)
    await api.submit("a", kind="page")
    assert [job["job"]["kind"] for job in await mine] == ["page"]
    assert not other.done()
    await api.submit("b", kind="other")
    assert [job["job"]["kind"] for job in await other] == ["other"]


async def test_a_poll_that_is_given_up_leaves_nothing_behind(api: Api) -> None:
    poll = claiming(api, "a")
    await waiting(api.served, 1)
    poll.cancel()
    await waiting(api.served, 0)
    assert api.served.waiting._groups == {}


async def test_a_claim_that_is_repeated_under_its_id_returns_the_same_jobs(api: Api) -> None:
    await api.submit("a", "b", "c")
    body = {"worker": {"label": "anna", "incarnation": "anna/1"}, "limit": 1, "claim_id": "one"}
    first, again = await api.post("/claims", body), await api.post("/claims", body)
    assert [job["job"]["key"] for job in again["jobs"]] == [job["job"]["key"] for job in first["jobs"]]
    assert (await api.settle(again["jobs"][0]["lease"]))[1]["accepted"] == [True]
    other = await api.post("/claims", {**body, "claim_id": "two"})
    assert [job["job"]["key"] for job in other["jobs"]] == ["b"]
    stranger = {**body, "worker": {"label": "ben", "incarnation": "ben/1"}, "claim_id": "two"}
    assert [job["job"]["key"] for job in (await api.post("/claims", stranger))["jobs"]] == ["c"]


async def test_a_claim_that_is_repeated_while_it_waits_gets_the_one_job(api: Api) -> None:
    first, again = claiming(api, "a", claim_id="one"), claiming(api, "a", claim_id="one")
    await waiting(api.served, 1)
    await api.submit("a", "b")
    answers = await asyncio.gather(first, again)
    assert [[job["job"]["key"] for job in answer] for answer in answers] == [["a"], ["a"]]


async def test_the_jobs_of_a_poll_whose_client_left_are_claimed_by_its_repeat(api: Api) -> None:
    poll = claiming(api, "a", claim_id="one")
    await waiting(api.served, 1)
    poll.cancel()
    await waiting(api.served, 0)
    await api.submit("a")
    assert [job["job"]["key"] for job in await claiming(api, "a", claim_id="two")] == ["a"]


async def test_a_poll_whose_key_was_revoked_gets_no_job_and_another_does(api: Api) -> None:
    key = api.make(Scope.WORK)
    revoked = asyncio.create_task(api.send("POST", "/claims", _claim("w1"), key=key))
    await waiting(api.served, 1)
    other = claiming(api, "w2")
    await waiting(api.served, 2)
    api.served.keys.revoke(key.split("_")[1], 1.0)
    await api.submit("a")
    status, problem = await revoked
    assert (status, problem["detail"]) == (401, "The key was revoked.")
    assert [each["job"]["key"] for each in await other] == ["a"]
