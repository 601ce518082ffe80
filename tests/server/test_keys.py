"""Every request needs a key with the right scope; what is outside of a key's runs and kinds does not exist for it."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Api

from longshore.server.auth.guard import OPEN, SCOPE
from longshore.server.auth.keys import KeyStore, Scope

PROBLEM_KEYS = {"title", "status"}
ASKED = {"names": ["ours", "theirs", "*"]}


@pytest.mark.parametrize("key", ["", "x", "lsk_", "lsk_00000000_abc", "lsk__", "Bearer", "lsk_é_ü"])
async def test_a_request_without_a_valid_key_is_refused(api: Api, key: str) -> None:
    status, problem = await api.send("GET", "/stats", key=key.encode().decode("latin-1"))
    assert status == 401
    assert problem.keys() >= PROBLEM_KEYS


async def test_a_request_without_a_header_is_refused(api: Api) -> None:
    status, problem = await api.send("GET", "/stats", headers={"Authorization": ""})
    assert (status, problem["title"]) == (401, "A key is needed")


async def test_health_needs_no_key(api: Api) -> None:
    for path, state in (("/health/live", "live"), ("/health/ready", "ready")):
        assert await api.send("GET", path, headers={"Authorization": ""}) == (200, {"status": state})


async def test_a_revoked_key_is_refused_at_once(api: Api) -> None:
    key = api.make(Scope.READ)
    assert (await api.send("GET", "/stats", key=key))[0] == 200
    api.served.keys.revoke(key.split("_")[1], 1.0)
    assert (await api.send("GET", "/stats", key=key))[0] == 401


async def test_a_key_that_another_process_revokes_is_refused(api: Api) -> None:
    key = api.make(Scope.READ)
    KeyStore(api.served.keys.path).revoke(key.split("_")[1], 1.0)
    assert (await api.send("GET", "/stats", key=key))[0] == 401


async def test_too_many_wrong_keys_are_refused_without_a_look_and_a_right_one_still_works(api: Api) -> None:
    statuses = [(await api.send("GET", "/stats", key="lsk_0_wrong"))[0] for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert (await api.send("GET", "/stats"))[0] == 200


@pytest.mark.parametrize(
    ("scope", "method", "path", "body"),
    [
        (Scope.READ, "POST", "/jobs", {"jobs": []}),
        (Scope.READ, "POST", "/claims", {"worker": {"label": "a", "incarnation": "b"}}),
        (Scope.READ, "POST", "/reap", {}),
        (Scope.SUBMIT, "POST", "/claims", {"worker": {"label": "a", "incarnation": "b"}}),
        (Scope.SUBMIT, "POST", "/jobs/search", {"where": {}}),
        (Scope.WORK, "POST", "/jobs", {"jobs": []}),
        (Scope.WORK, "POST", "/jobs/cancel", {"where": {"run": "r"}}),
        (Scope.WORK, "POST", "/jobs/prune", {"where": {"run": "r"}}),
        (Scope.SUBMIT, "POST", "/jobs/prune", {"where": {"run": "r"}}),
        (Scope.WORK, "POST", "/jobs/take-over", {"carried": []}),
        (Scope.WORK, "POST", "/state/swap", {"namespace": "schedules", "entries": []}),
        (Scope.WORK, "POST", "/state/swap", {"namespace": "runs-paused", "entries": []}),
        (Scope.SUBMIT, "POST", "/state/swap", {"namespace": "runs-paused", "entries": []}),
        (Scope.SUBMIT, "POST", "/state/swap", {"namespace": "pace", "entries": []}),
    ],
)
async def test_a_key_without_the_scope_is_refused(api: Api, scope: Scope, method: str, path: str, body: Any) -> None:
    assert (await api.send(method, path, body, key=api.make(scope)))[0] == 403
    assert (await api.send(method, path, body))[0] == 200


async def test_only_an_admin_key_publishes_code_and_only_workers_read_it(api: Api) -> None:
    for namespace in ("published-code", "published-code-parts", "run-versions"):
        entries = [{"name": "current", "version": "", "value": {"fingerprint": "0" * 64}}]
        body = {"namespace": namespace, "entries": entries}
        for scope in (Scope.READ, Scope.WORK, Scope.SUBMIT):
            assert (await api.send("POST", "/state/swap", body, key=api.make(scope)))[0] == 403
        assert (await api.send("POST", "/state/swap", body))[0] == 200
        codes = {
            scope: (await api.send("POST", "/state/read", {"namespace": namespace}, key=api.make(scope)))[0]
            for scope in (Scope.READ, Scope.SUBMIT, Scope.WORK, Scope.ADMIN)
        }
        others = 200 if namespace == "run-versions" else 403
        assert codes == {Scope.READ: others, Scope.SUBMIT: others, Scope.WORK: 200, Scope.ADMIN: 200}


async def test_a_key_for_work_shares_how_fast_hosts_are_asked(api: Api) -> None:
    entries = [{"name": "x.test", "version": "", "value": {"rate": 1}}]
    assert await api.post("/state/swap", {"namespace": "pace", "entries": entries}, key=api.make(Scope.WORK))


async def test_a_key_for_submitting_may_only_register_submissions(api: Api) -> None:
    key = api.make(Scope.SUBMIT)
    worker = {"label": "a", "incarnation": "b"}
    body = {"worker": worker, "lease_seconds": 60, "info": {"submitting": "r"}}
    assert await api.post("/renewals", body, key=key) == {"held": []}
    for info in (None, {"busy": 1}):
        status, _ = await api.send("POST", "/renewals", body | {"info": info}, key=key)
        assert status == 422


def test_every_route_says_who_may_call_it(tmp_path: Path) -> None:
    from longshore.clock import ManualClock
    from longshore.media.memory import MemoryQueue
    from longshore.server.app import application
    from longshore.server.served import Served

    keys = KeyStore(tmp_path / "keys.json")
    keys.add("first", [Scope.ADMIN], 0.0)
    app = application(Served.of(MemoryQueue(), keys, ManualClock()))
    handlers = [handler for route in app.routes for handler in getattr(route, "route_handlers", ())]
    silent = {str(handler) for handler in handlers if not {SCOPE, OPEN} & handler.opt.keys()}
    assert {name for name in silent if "longshore" in name} == set()


async def test_jobs_of_other_runs_and_kinds_do_not_exist_for_a_limited_key(api: Api) -> None:
    await api.submit("a", run="ours")
    await api.submit("b", run="theirs")
    await api.submit("c", run="ours", kind="image")
    ours, theirs, image = await _ids(api)
    key = api.make(Scope.READ, Scope.WORK, Scope.SUBMIT, runs=["ours"], kinds=["page"])
    assert [job["key"] for job in (await api.send("GET", "/jobs", key=key))[1]["jobs"]] == ["a"]
    assert [count["run"] for count in (await api.send("GET", "/stats", key=key))[1]["counts"]] == ["ours"]
    assert (await api.send("GET", f"/jobs/{ours}", key=key))[0] == 200
    for outside in (theirs, image, "999"):
        assert (await api.send("GET", f"/jobs/{outside}", key=key))[0] == 404
        assert (await api.send("GET", f"/jobs/{outside}/attempts", key=key))[0] == 404
    assert (await api.send("GET", "/jobs?run=theirs", key=key))[0] == 404
    assert (await api.send("POST", "/jobs/cancel", {"where": {"run": "theirs"}}, key=key))[0] == 404
    assert (await api.send("POST", "/jobs/cancel", {"where": {"ids": [theirs]}}, key=key))[1] == {"changed": 0}
    new = {"kind": "page", "run": "theirs", "payload": {}}
    assert (await api.send("POST", "/jobs", {"jobs": [new]}, key=key))[0] == 404
    assert [job["job"]["key"] for job in await api.claim(limit=10, key=key)] == ["a"]


async def _ids(api: Api) -> list[str]:
    return [job["id"] for job in (await api.send("GET", "/jobs"))[1]["jobs"]]


async def test_shared_entries_tell_a_limited_key_nothing_of_other_runs(api: Api) -> None:
    by_run = ("runs-paused", "run-versions", "runs", "runs-left-out", "runs-differing", "runs-room")
    for namespace in (*by_run, "schedules"):
        entries = [{"name": name, "version": "", "value": {"of": name}} for name in ("ours", "theirs", "*")]
        await api.post("/state/swap", {"namespace": namespace, "entries": entries})
    all_scopes = (Scope.READ, Scope.WORK, Scope.SUBMIT)
    of_run, of_kind, free = (
        api.make(*all_scopes, runs=["ours"]),
        api.make(*all_scopes, kinds=["page"]),
        api.make(*all_scopes),
    )

    async def names(namespace: str, key: str) -> list[str]:
        found = [await api.post("/state/read", {"namespace": namespace, **asked}, key=key) for asked in ({}, ASKED)]
        assert found[0]["entries"] == found[1]["entries"]
        return [entry["name"] for entry in found[0]["entries"]]

    for namespace in by_run:
        # "*" is the pause of everything, and no run's name elsewhere.
        assert await names(namespace, of_run) == (["*", "ours"] if namespace == "runs-paused" else ["ours"])
        assert await names(namespace, free) == await names(namespace, of_kind) == ["*", "ours", "theirs"]
    assert await names("schedules", of_run) == await names("schedules", of_kind) == []
    assert await names("schedules", free) == ["*", "ours", "theirs"]


async def test_a_limited_key_does_not_limit_the_growth_of_other_runs(api: Api) -> None:
    key = api.make(Scope.SUBMIT, runs=["ours"])
    for run, status in (("theirs", 404), ("ours", 200)):
        body = {"namespace": "runs", "entries": [{"name": run, "version": "", "value": {"max_jobs": 1}}]}
        assert (await api.send("POST", "/state/swap", body, key=key))[0] == status
    assert [entry["name"] for entry in (await api.post("/state/read", {"namespace": "runs"}))["entries"]] == ["ours"]


async def test_a_limited_key_cannot_add_follow_on_jobs_of_other_kinds(api: Api) -> None:
    await api.submit("a")
    key = api.make(Scope.WORK, kinds=["page"])
    (claimed,) = await api.claim(key=key)
    outcome = {"type": "completed", "jobs": [{"kind": "secret", "payload": {}}]}
    body = {"settlements": [{"lease": claimed["lease"], "outcome": outcome}]}
    assert (await api.send("POST", "/settlements", body, key=key))[0] == 404
    assert (await api.settle(claimed["lease"], key=key))[1] == {"accepted": [True], "jobs": []}


async def test_a_key_for_several_runs_claims_from_each_of_them(api: Api) -> None:
    for run in ("a", "b", "c"):
        await api.submit("1", "2", run=run)
    key = api.make(Scope.WORK, runs=["a", "c"])
    assert [job["job"]["run"] for job in await api.claim(limit=3, key=key)] == ["a", "a", "c"]


def test_keys_are_hashed_and_only_their_owner_can_read_the_file(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "server" / "keys.json")
    key = store.add("anna", [Scope.WORK], 0.0)
    content = store.path.read_text()
    assert key.split("_", 2)[2] not in content
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


ADDING = """
import sys
from pathlib import Path
from longshore.server.auth.keys import KeyStore, Scope

store = KeyStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    store.add(f"{sys.argv[2]}-{number}", [Scope.READ], 0.0)
store.revoke(f"{sys.argv[2]}-0", 1.0)
"""


def test_keys_that_several_processes_make_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "server" / "keys.json"
    command = [sys.executable, "-c", ADDING, str(path)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    adding = [subprocess.Popen([*command, str(n)], **pipes) for n in range(4)]
    for process in adding:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in adding:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in adding:
        process.communicate()
        assert process.returncode == 0
    keys = KeyStore(path).all()
    assert len({key.name for key in keys}) == 400
    assert sum(key.revoked_at is not None for key in keys) == 4
