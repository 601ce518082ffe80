"""Requests that are too large, too deep, compressed, or no JSON are refused clearly, and the server goes on."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from tests.server.conftest import Api

JSON = {"Content-Type": "application/json"}


def _job(payload: str) -> bytes:
    return b'{"jobs": [{"kind": "page", "payload": ' + payload.encode("utf-8", "surrogatepass") + b"}]}"


REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[1]",
    "not a number": _job('{"a": NaN}'),
    "infinity": _job('{"a": 1e999}'),
    "half a character": _job('{"a": "\\ud800"}'),
    "half a character as bytes": _job('{"a": "\ud800"}'),
    "no text": b'{"jobs": "\xff"}',
    "deep": _job('{"a": ' + "[" * 5000 + "]" * 5000 + "}"),
    "very deep": b"[" * 1_000_000,
    "unknown field": b'{"jobs": [], "admin": true}',
    "a payload that is no object": _job("[1]"),
    "a key that is no text": b'{"jobs": [{"kind": "page", "payload": {}, "key": 1}]}',
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
async def test_a_body_that_cannot_be_stored_is_refused_with_the_cause(api: Api, body: bytes) -> None:
    status, problem = await api.send("POST", "/jobs", data=body, headers=JSON)
    assert status in {400, 422}, problem
    assert problem["detail"]
    assert (await api.send("GET", "/stats"))[1] == {"counts": []}


async def test_a_compressed_body_is_refused_unread(api: Api) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    headers = JSON | {"Content-Encoding": "gzip"}
    status, problem = await api.send("POST", "/jobs", data=bomb, headers=headers)
    assert (status, problem["title"]) == (415, "The content type is not JSON")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_of_another_content_type_is_refused(api: Api, kind: str) -> None:
    status, _ = await api.send("POST", "/jobs", data=b'{"jobs": []}', headers={"Content-Type": kind})
    assert status == 415


@pytest.mark.ledger("E12")
async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    status, _ = await api.send("POST", "/jobs", data=b" " * (api.served.limits.body_bytes + 1), headers=JSON)
    assert status == 413


async def test_a_body_of_very_many_lists_is_refused_before_they_are_made(api: Api) -> None:
    status, problem = await api.send("POST", "/jobs", data=_job('{"a": [' + "[]," * 2_000_000 + "0]}"), headers=JSON)
    assert (status, "more than 2,000,000 lists and objects" in problem["detail"]) == (422, True)
    assert (await api.send("GET", "/stats"))[1] == {"counts": []}


@pytest.mark.parametrize("where", [{}, {"everything": False}, {"run": None}])
async def test_an_operation_with_an_empty_filter_is_refused(api: Api, where: Any) -> None:
    await api.submit("a")
    for operation in ("retry", "cancel", "release", "prune"):
        status, problem = await api.send("POST", f"/jobs/{operation}", {"where": where})
        assert (status, "empty" in problem["detail"]) == (422, True)
    assert (await api.send("POST", "/jobs/cancel", {"where": {"everything": True}}))[1] == {"changed": 1}


@pytest.mark.parametrize("path", ["/jobs/..%2f..%2fetc", "/jobs/%00", "/nothing", "/jobs/a/b/c", "/../../etc/passwd"])
async def test_a_path_that_is_none_of_ours_is_not_found(api: Api, path: str) -> None:
    status, problem = await api.send("GET", path)
    assert (status, problem["title"]) == (404, "Not found")


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "127.0.0.1.evil.test", ""])
async def test_a_request_for_another_host_is_refused(api: Api, host: str) -> None:
    assert (await api.send("GET", "/stats", headers={"Host": host}))[0] == 400


async def test_a_page_of_another_origin_cannot_post(api: Api) -> None:
    for headers in ({"Origin": "https://evil.test"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert (await api.send("POST", "/reap", {}, headers=headers))[0] == 403


async def test_answers_forbid_sniffing_framing_and_caching(api: Api) -> None:
    async with api._session.get(f"{api.url}/stats", headers={"Authorization": f"Bearer {api.key}"}) as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Cache-Control"] == "no-store"
        assert "server" not in response.headers
