"""A server that is read-only shows everything and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.server.conftest import Api, serving
from tests.server.page.conftest import Visitor

from longshore.clock import ManualClock
from longshore.errors import QueueError
from longshore.extensions.find import require
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.job import JobName, NewJob
from longshore.lease import DEFAULT_LEASE, Want, WorkerId
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.runs.control.bulk_action import BulkAction
from longshore.server.auth.keys import Scope
from longshore.server.bulk_actions import NAMESPACE, BulkActionStatus, BulkState
from longshore.server.openapi import document, example_application

JOB = NewJob(run="r", kind="page", key="a", payload={"url": "https://a.test/"})
LOOK_UPS = {
    "/api/v1/jobs/search",
    "/api/v1/jobs/payloads",
    "/api/v1/jobs/ids",
    "/api/v1/state/read",
    "/api/v1/bulk-actions/count",
}
"""The routes that are called with a body and only look."""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await queue.submit([JOB])
    async with serving(queue, clock, tmp_path, read_only=True) as served:
        yield served


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[Visitor]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Visitor(api, session)


async def test_every_route_that_writes_is_refused_to_an_admin(api: Api) -> None:
    paths = document(example_application())["paths"]
    writing = {path for path, item in paths.items() if "post" in item} - LOOK_UPS
    assert len(writing) > 25
    for path in writing:
        status, problem = await api.send("POST", f"/..{path.removeprefix('/api')}", {})
        assert (status, "read-only" in problem["detail"]) == (403, True), path
    assert [count.pending for count in await api.served.queue.stats()] == [1]


async def test_the_server_says_so(api: Api) -> None:
    assert (await api.get("/capabilities"))["read_only"] is True
    assert (await api.get("/health"))["read_only"] is True


async def test_a_queue_over_http_reads_and_says_why_it_cannot_write(api: Api) -> None:
    queue = await HttpQueue.open(ApiConnection(api.url.removesuffix("/v1"), api.key))
    (job,) = await queue.jobs(Selection(run="r"))
    assert [count.pending for count in await queue.stats("r")] == [1]
    assert await queue.payloads("r", [JobName("page", "a")]) == [JOB.payload]
    assert (await queue.read_entries("runs")).entries == ()
    worker = WorkerId.new("anna")
    (lease,) = await api.served.queue.claim(Want(worker=worker))
    for refused in (
        queue.submit([JOB]),
        queue.claim(Want(worker=worker)),
        queue.renew(worker, DEFAULT_LEASE),
        queue.settle([Settlement(lease, Completed())]),
        queue.retry(Selection(run="r")),
        queue.cancel(Selection(ids=frozenset({job.id}))),
        queue.reap(),
    ):
        with pytest.raises(QueueError, match="read-only: jobs can be looked at"):
            await refused
    await queue.close()


async def test_old_bulk_actions_are_not_removed_when_they_are_listed(api: Api) -> None:
    status = BulkActionStatus(id="old", action=BulkAction.RETRY, state=BulkState.DONE, created_at=0.0)
    value = {"status": msgspec.to_builtins(status), "key": "k", "seen_at": api.served.clock.now() - 3 * 86400}
    state = require(api.served.queue, SharedState, "lacks it")
    await state.swap_entries(NAMESPACE, [StateEntry("old", ABSENT, value)])
    assert await api.get("/bulk-actions") == {"actions": []}
    assert [entry.name for entry in (await state.read_entries(NAMESPACE)).entries] == ["old"]


@pytest.mark.parametrize("path", ["/", "/run?name=r", "/jobs", "/failures", "/hosts", "/workers", "/job?id={id}"])
async def test_a_page_has_no_actions(visitor: Visitor, path: str) -> None:
    (job,) = await visitor.api.served.queue.jobs(Selection())
    await visitor.log_in(Scope.ADMIN)
    answer = await visitor.get(path.format(id=job.id))
    assert answer.status == 200
    forms = [form.attributes.get("action") for form in answer.page.css("form[method=post]")]
    assert forms == ["/logout"]
    assert answer.page.css("[data-confirm], [name=verb], [type=checkbox], a[href^='/submit']") == []
    assert "the server is read-only" in answer.page.css_first(".menu").text()  # type: ignore[union-attr]


async def test_an_action_that_is_sent_all_the_same_is_refused(visitor: Visitor) -> None:
    await visitor.log_in(Scope.ADMIN)
    for answer in (
        await visitor.get("/confirm?verb=cancel&run=r"),
        await visitor.get("/submit"),
        await visitor.post("/act", {"verb": "cancel", "run": "r"}),
        await visitor.post("/act", {"verb": "pause", "run": "r"}),
        await visitor.post("/submit", {"kind": "page", "run": "r", "lines": "https://b.test/"}),
        await visitor.post("/bulk/abort", {"bulk": "x"}),
    ):
        assert answer.status == 403
        assert "The server is read-only" in answer.text
    assert [count.pending for count in await visitor.api.served.queue.stats()] == [1]
    assert (await visitor.post("/logout")).status == 303
