"""A bulk action is a resource: it is created, watched and aborted, and it says truly what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Api, serving

from longshore.clock import ManualClock
from longshore.errors import Failure, QueueUnavailableError
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Selection
from longshore.runs.control.bulk_action import PAGE
from longshore.server.auth.keys import Scope


class SlowQueue(MemoryQueue):
    """A queue whose bulk changes wait until the test lets the next one through."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.let_through = asyncio.Semaphore(10_000)
        self.error: Exception | None = None
        self.asked = asyncio.Event()
        """Set when a change has to wait."""

    async def cancel(self, selection: Selection) -> int:
        if self.let_through.locked():
            self.asked.set()
        await self.let_through.acquire()
        if self.error is not None:
            raise self.error
        return await super().cancel(selection)


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[tuple[Api, SlowQueue]]:
    clock = ManualClock()
    queue = SlowQueue(clock)
    async with serving(queue, clock, tmp_path) as api:
        yield api, queue
        for _ in range(100):
            queue.let_through.release()


async def _fail(api: Api, number: int, error: str = "timeout") -> None:
    leases = await api.served.queue.claim(Want(worker=WorkerId("w", "w"), limit=number))
    failure = Failure(error, f"it was {error}", retryable=False)
    await api.served.queue.settle([Settlement(lease, Failed(failure)) for lease in leases])


async def _bulk(api: Api, action: str, where: Any, **options: Any) -> Any:
    """Carry out an action, and return it when it has ended."""
    begun = await api.post("/bulk-actions", {"action": action, "where": where}, **options)
    assert begun["state"] == "running"
    ended = await api.get(f"/bulk-actions/{begun['id']}?wait_seconds=20", **options)
    assert ended["state"] != "running"
    return ended


async def test_failed_jobs_are_retried_and_counted(api: Api) -> None:
    await api.submit(*map(str, range(1200)))
    await _fail(api, 1100)
    count = await api.post("/bulk-actions/count", {"action": "retry", "where": {"run": "r"}})
    assert count == {"jobs": 1100, "more": False}
    ended = await _bulk(api, "retry", {"run": "r"})
    assert ended["state"] == "done"
    assert (ended["total"], ended["matched"], ended["changed"]) == (1100, 1100, 1100)
    assert (await api.get("/stats"))["counts"][0]["pending"] == 1200


async def test_only_jobs_that_match_every_condition_are_changed(api: Api) -> None:
    jobs = [{"kind": "page", "run": "r", "payload": {"url": f"http://{host}/{n}"}} for host in "ab" for n in range(3)]
    await api.post("/jobs", {"jobs": jobs})
    assert (await _bulk(api, "cancel", {"hosts": ["a"], "text": "A/2"}))["changed"] == 1
    assert (await _bulk(api, "cancel", {"hosts": ["a"]}))["changed"] == 2
    assert (await _bulk(api, "cancel", {"states": ["claimed"]}))["changed"] == 0
    assert (await _bulk(api, "cancel", {"text": "http://b/1"}))["changed"] == 1


async def test_failures_are_selected_by_their_error(api: Api) -> None:
    await api.submit("a", "b", "c")
    await _fail(api, 1, "timeout")
    await _fail(api, 2, "refused")
    assert (await _bulk(api, "retry", {"error": "REFUSED"}))["changed"] == 2


async def test_prune_removes_finished_jobs_and_release_returns_claimed_ones(api: Api) -> None:
    await api.submit("a", "b", "c")
    (lease,) = await api.served.queue.claim(Want(worker=WorkerId("w", "w")))
    await api.served.queue.settle([Settlement(lease, Completed(1))])
    await api.claim()
    assert (await _bulk(api, "release", {"run": "r"}))["changed"] == 1
    assert (await _bulk(api, "prune", {"run": "r"}))["changed"] == 1
    assert [job["state"] for job in (await api.get("/jobs"))["jobs"]] == ["pending"] * 2


@pytest.mark.parametrize("where", [{}, {"everything": False}, {"run": None, "text": ""}])
@pytest.mark.parametrize("action", ["retry", "cancel", "release", "prune"])
async def test_an_empty_filter_is_refused(api: Api, action: str, where: Any) -> None:
    for path in ("/bulk-actions", "/bulk-actions/count"):
        status, problem = await api.send("POST", path, {"action": action, "where": where})
        assert (status, "empty" in problem["detail"]) == (422, True)
    assert (await api.post("/bulk-actions", {"action": action, "where": {"everything": True}}))["state"] == "running"


async def test_states_that_the_action_cannot_change_are_refused(api: Api) -> None:
    status, problem = await api.send("POST", "/bulk-actions", {"action": "retry", "where": {"states": ["pending"]}})
    assert (status, "failed" in problem["detail"]) == (422, True)


async def test_an_unknown_run_is_not_found(api: Api) -> None:
    assert (await api.send("POST", "/bulk-actions", {"action": "retry", "where": {"run": "x"}}))[0] == 404


async def test_progress_is_shown_while_it_runs_and_an_abort_keeps_what_is_done(slow: tuple[Api, SlowQueue]) -> None:
    api, queue = slow
    await api.submit(*map(str, range(3 * PAGE)))
    queue.let_through = asyncio.Semaphore(1)
    begun = await api.post("/bulk-actions", {"action": "cancel", "where": {"run": "r"}})
    await queue.asked.wait()  # the second page is asked for after the first was noted
    seen = await api.get(f"/bulk-actions/{begun['id']}")
    assert (seen["state"], seen["total"], seen["matched"], seen["changed"]) == ("running", 3 * PAGE, PAGE, PAGE)
    aborting = asyncio.create_task(api.post(f"/bulk-actions/{begun['id']}/abort", {}))
    await api.served.bulk_actions._known[begun["id"]].stop.wait()
    queue.let_through.release()
    aborted = await aborting
    assert (aborted["state"], aborted["changed"], aborted["detail"]) == ("aborted", 2 * PAGE, "")
    assert (await api.get("/stats"))["counts"][0]["cancelled"] == 2 * PAGE
    assert (await api.post(f"/bulk-actions/{begun['id']}/abort", {})) == aborted


async def test_an_action_goes_on_after_its_client_has_left_and_others_are_answered_meanwhile(
    slow: tuple[Api, SlowQueue],
) -> None:
    api, queue = slow
    await api.submit("a")
    queue.let_through = asyncio.Semaphore(0)
    begun = await api.post("/bulk-actions", {"action": "cancel", "where": {"run": "r"}})
    waiting = asyncio.create_task(api.get(f"/bulk-actions/{begun['id']}?wait_seconds=20"))
    assert (await api.get("/stats"))["counts"][0]["pending"] == 1
    waiting.cancel()
    queue.let_through.release()
    assert (await api.get(f"/bulk-actions/{begun['id']}?wait_seconds=20"))["state"] == "done"


async def test_an_action_that_fails_says_why(slow: tuple[Api, SlowQueue]) -> None:
    api, queue = slow
    await api.submit("a")
    queue.error = QueueUnavailableError("no answer from postgresql://user:secret@db/x")
    failed = await _bulk(api, "cancel", {"run": "r"})
    assert (failed["state"], "no answer" in failed["detail"], "secret" in failed["detail"]) == ("failed", True, False)


async def test_a_server_that_stops_aborts_its_actions_and_says_so_afterwards(tmp_path: Path) -> None:
    clock = ManualClock()
    queue = SlowQueue(clock)
    async with serving(queue, clock, tmp_path) as api:
        await api.submit(*map(str, range(2 * PAGE)))
        queue.let_through = asyncio.Semaphore(0)
        begun = await api.post("/bulk-actions", {"action": "cancel", "where": {"run": "r"}})
        waiting = asyncio.create_task(api.get(f"/bulk-actions/{begun['id']}?wait_seconds=20"))
        await queue.asked.wait()
        await api.get("/stats")  # the request that waits has arrived before this one
        api.served.closing.set()
        await api.served.bulk_actions._known[begun["id"]].stop.wait()
        queue.let_through.release()
        told = await waiting
        assert (told["state"], told["changed"], "server stopped" in told["detail"]) == ("aborted", PAGE, True)
    async with serving(queue, clock, tmp_path) as api:
        assert await api.get(f"/bulk-actions/{begun['id']}") == told
        assert (await api.get("/bulk-actions"))["actions"] == [told]


async def test_an_action_of_a_server_that_was_killed_is_shown_as_interrupted(slow: tuple[Api, SlowQueue]) -> None:
    api, queue = slow
    await api.submit("a")
    queue.let_through = asyncio.Semaphore(0)
    begun = await api.post("/bulk-actions", {"action": "cancel", "where": {"run": "r"}})
    await queue.asked.wait()
    api.served.bulk_actions._known.clear()  # as a new process begins
    assert (await api.get(f"/bulk-actions/{begun['id']}"))["state"] == "running"
    assert (await api.send("POST", f"/bulk-actions/{begun['id']}/abort", {}))[0] == 422
    clock = api.served.clock
    assert isinstance(clock, ManualClock)
    clock.advance(61)
    seen = await api.get(f"/bulk-actions/{begun['id']}")
    assert (seen["state"], "died" in seen["detail"]) == ("interrupted", True)
    clock.advance(25 * 3600)
    assert (await api.get("/bulk-actions"))["actions"] == []
    assert (await queue.read_entries("bulk-actions")).entries == ()


async def test_a_key_changes_only_what_it_reaches_and_sees_only_its_own_actions(api: Api) -> None:
    await api.submit("a", run="ours")
    await api.submit("b", run="theirs")
    ours, other = api.make(Scope.SUBMIT, runs=["ours"]), api.make(Scope.SUBMIT)
    body = {"action": "cancel", "where": {"run": "theirs"}}
    assert (await api.send("POST", "/bulk-actions", body, key=ours))[0] == 404
    ended = await _bulk(api, "cancel", {"everything": True}, key=ours)
    assert (ended["state"], ended["changed"]) == ("done", 1)
    for method, path in (("GET", ""), ("POST", "/abort")):
        body_or_none: Any = {} if method == "POST" else None
        assert (await api.send(method, f"/bulk-actions/{ended['id']}{path}", body_or_none, key=other))[0] == 404
    assert (await api.get("/bulk-actions", key=other))["actions"] == []
    assert [each["id"] for each in (await api.get("/bulk-actions"))["actions"]] == [ended["id"]]


@pytest.mark.parametrize("action", ["release", "prune"])
async def test_only_an_admin_releases_and_prunes(api: Api, action: str) -> None:
    body = {"action": action, "where": {"everything": True}}
    assert (await api.send("POST", "/bulk-actions", body, key=api.make(Scope.SUBMIT)))[0] == 403
    assert (await api.send("POST", "/bulk-actions", body, key=api.make(Scope.WORK, Scope.READ)))[0] == 403


async def test_no_more_than_a_bounded_number_of_actions_run_at_once(slow: tuple[Api, SlowQueue]) -> None:
    api, queue = slow
    await api.submit("a")
    queue.let_through = asyncio.Semaphore(0)
    body = {"action": "cancel", "where": {"run": "r"}}
    statuses = [(await api.send("POST", "/bulk-actions", body))[0] for _ in range(21)]
    assert statuses == [202] * 20 + [422]
