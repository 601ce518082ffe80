"""Records and pages over HTTP: stored with the lease of their attempt, counted with its settlement."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.server.conftest import Api

from longshore.queue import Selection
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.records import RecordReader
from longshore.server.auth.keys import Scope


async def stream(api: Api, query: str, key: str | None = None) -> list[Any]:
    """Return the streamed lines, without the empty one at the end."""
    headers = {"Authorization": f"Bearer {key or api.key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}/records?{query}", headers=headers) as response,
    ):
        assert response.status == 200
        lines = (await response.text()).split("\n")
    assert lines[-2:] == ["", ""]
    return [json.loads(line) for line in lines[:-2]]


async def kept(api: Api, lease: str, *records: Any, **more: Any) -> Any:
    """Send records, and return the answer."""
    return await api.post("/records", {"attempts": [{"lease": lease, "records": list(records), **more}]})


async def test_records_count_with_the_settlement_of_their_attempt(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    rejected = [["item", "too dear", 2]]
    assert await kept(api, claimed["lease"], ["item", {"n": 1}], ["note", "x"], rejected=rejected) == {
        "refused": [None]
    }
    assert await stream(api, "run=r") == []
    await api.settle(claimed["lease"])
    found = await stream(api, "run=r")
    assert [(each["key"], each["n"], each["kind"], each["data"]) for each in found] == [
        ("a", 0, "item", {"n": 1}),
        ("a", 1, "note", "x"),
    ]
    assert len(await stream(api, "run=r&kind=item")) == 1
    counts = (await api.send("GET", "/records/counts?run=r"))[1]
    assert counts == {"kept": {"item": 1, "note": 1}, "rejected": {"item": {"too dear": 2}}}


async def test_records_in_a_settlement_count_with_it(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    settlement = {"lease": claimed["lease"], "outcome": {"type": "completed"}, "records": [["item", {"n": 1}]]}
    await api.post("/settlements", {"settlements": [settlement]})
    assert [each["data"] for each in await stream(api, "run=r")] == [{"n": 1}]


async def test_records_of_a_refused_attempt_are_never_visible(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (lost,) = await api.claim()
    await api.post("/jobs/release", {"where": {"run": "r"}})
    (held,) = await api.claim("ben")
    for claimed, number in ((held, 1), (lost, 2)):
        await kept(api, claimed["lease"], ["item", {"n": number}])
    assert (await api.settle(lost["lease"]))[1]["accepted"] == [False]
    assert (await api.settle(held["lease"]))[1]["accepted"] == [True]
    await kept(api, lost["lease"], ["item", {"n": 3}])
    assert [each["data"] for each in await stream(api, "run=r")] == [{"n": 1}]
    await api.served.traces.close()
    assert [each.data for each in RecordReader(tmp_path / "records").records()] == [{"n": 1}]


async def test_records_that_are_sent_again_count_once(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    for _ in range(3):
        await kept(api, claimed["lease"], ["item", {"n": 1}])
    await api.settle(claimed["lease"])
    assert len(await stream(api, "run=r")) == 1


async def test_records_with_a_forged_lease_are_refused_and_the_others_stored(api: Api) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    attempts = [{"lease": lease, "records": [["item", {}]]} for lease in (claimed["lease"], "forged")]
    answer = await api.post("/records", {"attempts": attempts})
    assert [each is None for each in answer["refused"]] == [True, False]
    await api.settle(claimed["lease"])
    assert len(await stream(api, "run=r")) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'[["", {}]]', 200),
        (b'[["\\u0007", {}]]', 200),
        (b'[["item", ' + b"[" * 300 + b"]" * 300 + b"]]", 200),
        (b'[["item", "\\ud800"]]', 400),
        (b'[["item", NaN]]', 400),
        (b'[["item"]]', 422),
        (b'[["item", {}, {}]]', 422),
        (b"[[1, {}]]", 422),
        (b'{"item": 1}', 422),
    ],
)
async def test_records_that_could_not_be_read_again_are_refused(api: Api, body: bytes, status: int) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    content = b'{"attempts": [{"lease": "%s", "records": %s}]}' % (claimed["lease"].encode(), body)
    sent, answer = await api.send("POST", "/records", data=content, headers={"Content-Type": "application/json"})
    assert sent in {status, 422}, answer
    if sent == 200:
        assert answer["refused"] != [None]
    await api.settle(claimed["lease"])
    assert await stream(api, "run=r") == []


async def test_only_an_admin_may_replace_the_records_of_completed_jobs(api: Api) -> None:
    await api.submit("a", "b")
    claimed, pending = await api.claim(limit=2)
    await kept(api, claimed["lease"], ["item", {"n": 1}])
    await api.settle(claimed["lease"])
    body = {"attempts": [{"job": claimed["job"]["id"], "epoch": 1, "records": [["item", {"n": 2}]]}]}
    assert (await api.send("POST", "/records/revised", body, key=api.make(Scope.WORK)))[0] == 403
    assert await api.post("/records/revised", body) == {"refused": [None]}
    assert [each["data"] for each in await stream(api, "run=r")] == [{"n": 2}]
    for job, epoch in ((pending["job"]["id"], 1), (claimed["job"]["id"], 2), ("999", 1)):
        body["attempts"][0] |= {"job": job, "epoch": epoch}
        assert (await api.send("POST", "/records/revised", body))[0] == 409


async def test_records_outside_the_reach_of_a_key_do_not_exist_for_it(api: Api) -> None:
    await api.submit("a", kind="page")
    await api.submit("b", kind="other")
    for claimed in await api.claim(limit=2):
        await kept(api, claimed["lease"], ["item", {"n": claimed["job"]["key"]}])
        await api.settle(claimed["lease"])
    stranger, partly = api.make(Scope.READ, runs=["s"]), api.make(Scope.READ, kinds=["page"])
    assert (await api.send("GET", "/records?run=r", key=stranger))[0] == 404
    assert (await api.send("GET", "/records/counts?run=r", key=stranger))[0] == 404
    assert [each["data"] for each in await stream(api, "run=r", partly)] == [{"n": "a"}]
    assert (await api.send("GET", "/records/counts?run=r", key=partly))[1]["kept"] == {"item": 1}
    assert (await api.send("GET", "/records?run=r", key=api.make(Scope.WORK)))[0] == 403


async def test_records_go_with_their_jobs(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    await kept(api, claimed["lease"], ["item", {"n": 1}])
    await api.settle(claimed["lease"])
    await api.post("/jobs/prune", {"where": {"run": "r"}})
    assert list((tmp_path / "records").iterdir()) == []


async def test_records_wait_until_there_is_room_on_the_disk(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    (tmp_path / "records").write_text("a file in the way")
    body = {"attempts": [{"lease": claimed["lease"], "records": [["item", {"n": 1}]]}]}
    for _ in range(3):
        status, problem = await api.send("POST", "/records", body)
        assert (status, problem["code"]) == (507, "QueueFullError")
    (tmp_path / "records").unlink()
    assert await api.post("/records", body) == {"refused": [None]}
    await api.settle(claimed["lease"])
    assert len(await stream(api, "run=r")) == 1
    await api.served.traces.close()
    assert len(list(RecordReader(tmp_path / "records").attempts())) == 1


PAGE = b"<title>Hi</title>"
DIGEST = hashlib.sha256(PAGE).hexdigest()


async def test_pages_are_kept_with_the_lease_of_their_attempt(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    assert await api.post("/pages/missing", {"contents": [DIGEST]}) == {"missing": [DIGEST]}
    sent = await api.post("/pages/contents", {"contents": [base64.b64encode(PAGE).decode()]})
    assert sent == {"contents": [DIGEST]}
    assert await api.post("/pages/missing", {"contents": [DIGEST]}) == {"missing": []}
    page = {"url": "https://a.org/?token=s3cret", "status": 200, "content": DIGEST}
    await api.post("/pages", {"lease": claimed["lease"], "pages": [page]})
    job = claimed["job"]["id"]
    (listed,) = (await api.send("GET", f"/pages/{job}"))[1]["pages"]
    assert (listed["content"], "s3cret" in listed["url"]) == (DIGEST, False)
    (found,) = await api.served.queue.jobs(Selection())
    (exchange,) = PageStore(tmp_path / "pages").exchanges(found)
    assert exchange.body == PAGE


@pytest.mark.parametrize("digest", ["", "../../keys.json", "A" * 64, DIGEST[:-1], DIGEST + "/.."])
async def test_no_digest_becomes_a_path(api: Api, digest: str) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    assert (await api.send("POST", "/pages/missing", {"contents": [digest]}))[0] == 422
    page = {"url": "https://a.org/", "status": 200, "content": digest or "x"}
    assert (await api.send("POST", "/pages", {"lease": claimed["lease"], "pages": [page]}))[0] == 422
    assert (await api.send("GET", f"/pages/{claimed['job']['id']}/{digest.replace('/', '%2f')}"))[0] in {200, 404}


async def test_a_page_of_one_job_is_not_read_through_another(api: Api) -> None:
    await api.submit("a", "b")
    first, second = await api.claim(limit=2)
    await api.post("/pages/contents", {"contents": [base64.b64encode(PAGE).decode()]})
    page = {"url": "https://a.org/", "status": 200, "content": DIGEST}
    await api.post("/pages", {"lease": first["lease"], "pages": [page]})
    assert (await api.send("GET", f"/pages/{second['job']['id']}/{DIGEST}"))[0] == 404
    assert (await api.send("GET", f"/pages/{first['job']['id']}", key=api.make(Scope.READ, runs=["s"])))[0] == 404


async def test_a_stream_of_records_breaks_off_when_its_key_is_revoked(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = api.make(Scope.READ)

    class Endless:
        async def records(self, kind: str | None) -> AsyncIterator[Any]:
            for number in range(100):
                if number == 2:
                    api.served.keys.revoke(key.split("_")[1], 1.0)
                assert number < 10, "the stream went on"
                yield {"n": "x" * 100_000}

    monkeypatch.setattr(type(api.served.traces), "records", lambda *_: Endless())
    headers = {"Authorization": f"Bearer {key}"}
    async with api._session.get(f"{api.url}/records?run=r", headers=headers) as answer:
        content = await answer.read()
    # Two records; the empty line at the end, which says that this was all, is missing.
    assert content.count(b"\n") == 2
