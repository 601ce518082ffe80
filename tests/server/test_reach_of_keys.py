"""Whatever a key for one run and one kind asks, on every route: the jobs of others do not exist for it."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import msgspec
import pytest
from tests.server.conftest import Api, serving
from tests.server.test_bundles_over_http import sent

from longshore.clock import ManualClock
from longshore.extensions.find import require
from longshore.extensions.kind_schemas import KINDS
from longshore.extensions.rejected import RejectedFiles
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.extensions.worker_orders import WorkerOrder, give_order
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.server.auth.keys import Scope
from longshore.server.openapi import encoded, example_application

MARK = "zzmark"
RUN, KIND, KEY = f"run-{MARK}", f"kind-{MARK}", f"key-{MARK}"
WORKER = {"label": "w", "incarnation": "w/1"}
PAGE = MARK.encode()
DIGEST = hashlib.sha256(PAGE).hexdigest()
FILTER = {"where": {"run": RUN}}
BULK = {"action": "retry", "where": {"run": RUN}}
NAMES = {"run": RUN, "names": [{"kind": KIND, "key": KEY}]}
NOTHING, REFUSED, STALE = {200}, {404}, {409}
DOCUMENT: dict[str, Any] = json.loads(encoded(example_application()))
SCOPES = {
    f"{method} {path}": {scope for each in operation["security"] for scope in each.get("key", ())}
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}
"""The scopes of which each route needs one; none for a route that is open to all."""
OF_ALL = {
    "get /api/v1/capabilities": "about the server",
    "get /api/v1/claim-success-rate": "about the queue",
    "post /api/v1/reap": "takes back the jobs of dead workers, and names none",
    "post /api/v1/pages/contents": "stores bytes that belong to no job yet",
    "post /api/v1/pages/missing": "names contents by their hash",
    "post /api/v1/workers/leave": "a worker of this key",
    "post /api/v1/renewals": "a worker of this key",
}
"""Routes that have nothing of a run or a kind, and why."""


def asked(scene: Scene) -> dict[str, list[tuple[set[int], str, Any]]]:
    """Return for each route the requests about what belongs to others: the allowed statuses, the query, the body."""
    job, lease = {"job_id": scene.job}, scene.lease
    settlement = {"lease": lease, "outcome": {"type": "completed", "result": 1}}
    claim = {"worker": WORKER, "limit": 10}
    new = {"kind": KIND, "run": RUN, "payload": {}}
    ours = {"kind": "page", "run": "ours", "payload": {}}
    bundle, task = {"name": scene.bundle}, {"task_id": scene.job, "lease": lease}
    return {
        "get /api/tasks/{task_id}": [(REFUSED, "", task)],
        "post /api/tasks": [
            (REFUSED, "", {"type": "page", "run": RUN}),
            (REFUSED, "", {"type": KIND, "run": "ours"}),
        ],
        "post /api/tasks/claim": [({204}, "", {"worker_id": "w"}), ({204}, "", {"worker_id": "w", "run": RUN})],
        **{f"post /api/tasks/{{task_id}}/{verb}": [(STALE, "", task)] for verb in ("complete", "release", "renew")},
        "post /api/tasks/{task_id}/fail": [(STALE, "", task | {"error": "x"})],
        "get /api/v1/archive": [(REFUSED, "", {})],
        "get /api/v1/autoscale": [(NOTHING, "", {}), (NOTHING, f"run={RUN}", {}), (NOTHING, f"kind={KIND}", {})],
        "get /api/v1/rejected": [(REFUSED, f"run={RUN}", {})],
        "get /api/v1/hosts": [(REFUSED, "", {})],
        "get /api/v1/proxies": [(REFUSED, "", {})],
        "get /api/v1/stats": [(NOTHING, "", {}), (NOTHING, f"run={RUN}", {})],
        "get /api/v1/workers": [(NOTHING, "", {})],
        "get /api/v1/kinds": [(NOTHING, "", {})],
        "get /api/v1/kinds/{kind}": [(REFUSED, "", {"kind": KIND})],
        "get /api/v1/runs": [(NOTHING, "", {})],
        "get /api/v1/runs/details": [(REFUSED, f"run={RUN}", {})],
        "get /api/v1/records": [(REFUSED, f"run={RUN}", {}), (NOTHING, "run=ours", {})],
        "get /api/v1/records/counts": [(REFUSED, f"run={RUN}", {}), (NOTHING, "run=ours", {})],
        "get /api/v1/jobs": [
            (NOTHING, "", {}),
            (NOTHING, f"kind={KIND}", {}),
            (NOTHING, f"text={MARK}", {}),
            (REFUSED, f"run={RUN}", {}),
        ],
        "post /api/v1/jobs": [(REFUSED, "", {"jobs": [ours, new]}), (REFUSED, "", {"jobs": [new], "items": True})],
        "post /api/v1/jobs/search": [(REFUSED, "", FILTER), (NOTHING, "", {"where": {"ids": [scene.job]}})],
        "post /api/v1/jobs/payloads": [(NOTHING, "", NAMES)],
        "post /api/v1/jobs/ids": [(NOTHING, "", NAMES)],
        **{f"get /api/v1/jobs/{{job_id}}{more}": [(REFUSED, "", job)] for more in ("", "/attempts")},
        **{f"post /api/v1/jobs/{{job_id}}/{verb}": [(REFUSED, "", job)] for verb in ("retry", "cancel")},
        **{
            f"post /api/v1/jobs/{verb}": [(REFUSED, "", FILTER), (NOTHING, "", {"where": {"ids": [scene.job]}})]
            for verb in ("retry", "cancel")
        },
        "get /api/v1/bulk-actions": [(NOTHING, "", {})],
        "post /api/v1/bulk-actions": [(REFUSED, "", BULK)],
        "post /api/v1/bulk-actions/count": [(REFUSED, "", BULK)],
        "get /api/v1/bulk-actions/{action_id}": [(REFUSED, "", {"action_id": scene.action})],
        "post /api/v1/bulk-actions/{action_id}/abort": [(REFUSED, "", {"action_id": scene.action})],
        "post /api/v1/claims": [(NOTHING, "", claim), (NOTHING, "", claim | {"run": RUN})],
        "post /api/v1/wait": [(NOTHING, "", {"want": claim | {"run": RUN}, "timeout_seconds": 0})],
        "post /api/v1/leases": [(NOTHING, "", {"worker": WORKER, "held": [{"job": scene.job, "epoch": 1}]})],
        "post /api/v1/settlements": [(STALE, "", {"settlements": [settlement]})],
        "post /api/v1/records": [(NOTHING, "", {"attempts": [{"lease": lease, "records": [["item", 1]]}]})],
        "post /api/v1/pages": [(STALE, "", {"lease": lease, "pages": []})],
        "post /api/v1/bundles": [(STALE, "", {"lease": lease, "bundle": {}})],
        "get /api/v1/pages/{job_id}": [(REFUSED, "", job)],
        "get /api/v1/pages/{job_id}/{content}": [(REFUSED, "", job | {"content": DIGEST})],
        "get /api/v1/bundles": [(NOTHING, "", {}), (NOTHING, f"run={RUN}", {})],
        "get /api/v1/bundles/{name}": [(REFUSED, "", bundle)],
        "get /api/v1/bundles/{name}/screenshot": [(REFUSED, "", bundle)],
        "get /api/v1/bundles/{name}/files/{file}": [(REFUSED, "", bundle | {"file": "page-1.html"})],
        "post /api/v1/state/read": [
            (NOTHING, "", {"namespace": namespace, **names})
            for namespace in NAMESPACES
            for names in ({}, {"names": [RUN, KIND, MARK]})
        ],
        "post /api/v1/state/swap": [
            (REFUSED, "", {"namespace": "runs", "entries": [{"name": RUN, "version": "", "value": {"max_jobs": 1}}]}),
            (REFUSED, "", {"namespace": "run_ids", "entries": [{"name": RUN, "version": "", "value": {"at": 1}}]}),
            (REFUSED, "", {"namespace": "scans", "entries": [{"name": "x", "version": "", "value": {"run": RUN}}]}),
        ],
    }


NAMESPACES = {
    "runs": RUN, "runs-left-out": RUN, "runs-room": RUN, "runs-differing": RUN, "runs-paused": RUN, "run_ids": RUN,
    "run-versions": RUN, KINDS: KIND, "scans": MARK, "schedules": MARK,
}  # fmt: skip
"""Namespaces that tell of runs and kinds, with the name of an entry about those of others."""


class RejectingQueue(MemoryQueue):
    """A queue with files that are no jobs."""

    traits = msgspec.structs.replace(MemoryQueue.traits, keeps_rejected=True)
    rejects: ClassVar = {"ours": 1, "mine": 2, RUN: 4}

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        return RejectedFiles(sum(self.rejects.values()) if run is None else self.rejects[run], "rejected/")


class Scene:
    """What belongs to others: a claimed job with pages and a bundle, a completed one with a record, and more."""

    def __init__(self, api: Api, key: str) -> None:
        self.api, self.key = api, key
        self.job = self.lease = self.bundle = self.action = ""

    async def make(self, folder: Path) -> None:
        api, queue = self.api, self.api.served.queue
        self.bundle = await sent(api, folder, run=RUN, kind=KIND)
        (job,) = await queue.jobs(Selection())
        self.job = job.id
        await queue.release(Selection(ids=frozenset({job.id})))
        (claimed,) = await api.claim()
        self.lease = claimed["lease"]
        await api.post("/pages/contents", {"contents": [base64.b64encode(PAGE).decode()]})
        page = {"url": f"https://{MARK}.test/", "status": 200, "content": DIGEST}
        await api.post("/pages", {"lease": self.lease, "pages": [page]})
        await api.submit(KEY, run=RUN, kind=KIND)
        worker = WorkerId(f"worker-{MARK}", "x/1")
        info = {"run": RUN, "machine": MARK}
        body = {"worker": {"label": worker.label, "incarnation": worker.incarnation}, "lease_seconds": 3600}
        await api.post("/renewals", body | {"info": info})
        (lease,) = await queue.claim(Want(worker=worker, lease=timedelta(hours=1)))
        assert await queue.settle([Settlement(lease, Completed(MARK))]) == [True]
        self.action = (await api.post("/bulk-actions", BULK))["id"]
        state = require(queue, SharedState, "lacks it")
        for namespace, name in NAMESPACES.items():
            value = {"schema": {"title": MARK}} if namespace == KINDS else {"run": RUN}
            await state.swap_entries(namespace, [StateEntry(name, ABSENT, value)])
        await give_order(state, f"worker-{MARK}", "x", WorkerOrder.DRAIN)

    async def send(self, route: str, query: str, body: dict[str, Any]) -> tuple[int, str]:
        method, path = route.split(" ")
        left = dict(body)
        for name in [name for name in body if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", left.pop(name))
        content: dict[str, Any] = {"json": left} if method == "post" else {}
        url = f"{self.api.url.removesuffix('/api/v1')}{path}{'?' if query else ''}{query}"
        headers = {"Authorization": f"Bearer {self.key}"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=headers, **content) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def scene(api: Api, tmp_path: Path) -> Scene:
    made = Scene(api, api.make(Scope.READ, Scope.WORK, Scope.SUBMIT, runs=["ours"], kinds=["page"]))
    await made.make(tmp_path)
    return made


async def test_on_every_route_the_jobs_of_others_do_not_exist_for_a_limited_key(scene: Scene) -> None:
    requests = asked(scene)
    limited = {route for route, scopes in SCOPES.items() if scopes and scopes != {"admin"}}
    assert requests.keys() == limited - OF_ALL.keys(), "each route is asked for what belongs to others"
    before = await scene.api.served.queue.jobs(Selection())
    wrong = []
    for route, given in requests.items():
        for allowed, query, body in given:
            status, text = await scene.send(route, query, body)
            if status not in allowed or (status == 200 and MARK in text):
                wrong.append((route, query, body, status, text[:200]))
    assert wrong == []
    assert await scene.api.served.queue.jobs(Selection()) == before


@pytest.mark.parametrize("query", ["", f"?run={RUN}", f"?kind={KIND}"])
async def test_the_jobs_of_others_are_not_counted_for_scalers(scene: Scene, query: str) -> None:
    assert (await scene.api.get(f"/autoscale{query}"))["jobs"] == 1
    assert (await scene.api.send("GET", f"/autoscale{query}", key=scene.key))[1]["jobs"] == 0


async def test_a_key_that_is_no_admins_is_refused_on_every_route_for_admins(scene: Scene) -> None:
    for route in (route for route, scopes in SCOPES.items() if scopes == {"admin"}):
        assert (await scene.send(route, "", {}))[0] == 403, route


async def test_a_limited_key_reads_and_writes_entries_about_its_own_run(scene: Scene) -> None:
    api, key = scene.api, scene.key
    entries = [{"name": "ours", "version": "", "value": {"max_jobs": 9}}]
    await api.post("/state/swap", {"namespace": "runs", "entries": entries}, key=key)
    found = await api.post("/state/read", {"namespace": "runs"}, key=key)
    assert [each["value"] for each in found["entries"]] == [{"max_jobs": 9}]
    for namespace, name in (("runs-paused", "*"), ("pace", "a.test"), (KINDS, "page"), ("run_ids", "ours")):
        state = require(api.served.queue, SharedState, "lacks it")
        await state.swap_entries(namespace, [StateEntry(name, ABSENT, {})])
        found = await api.post("/state/read", {"namespace": namespace}, key=key)
        assert [each["name"] for each in found["entries"]] == [name], namespace
    assert not (await api.post("/state/read", {"namespace": "worker-orders"}, key=key))["entries"]


async def test_a_key_for_some_runs_counts_only_their_rejected_files(tmp_path: Path) -> None:
    clock = ManualClock()
    async with serving(RejectingQueue(clock), clock, tmp_path) as api:
        key = api.make(Scope.READ, runs=["ours", "mine"])
        found = {run: (await api.get(f"/rejected{run}", key=key))["count"] for run in ("", "?run=ours")}
        assert found == {"": 3, "?run=ours": 1}
        assert (await api.get("/rejected"))["count"] == 7


async def test_bulk_actions_are_read_as_such_and_not_as_shared_entries(scene: Scene) -> None:
    for scope in (Scope.READ, Scope.WORK, Scope.SUBMIT):
        key = scene.api.make(scope)
        assert (await scene.api.send("POST", "/state/read", {"namespace": "bulk-actions"}, key=key))[0] == 403
