"""Failure bundles over HTTP: sent by workers with their lease, looked at by people, and trusted in nothing."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.server.conftest import Api
from yarl import URL

from longshore.errors import Failure
from longshore.extensions.traces import BundleFiles
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_bundles import FailureBundles, bundle_files, read_bundle
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.trail import Trail
from longshore.server.auth.keys import Scope
from longshore.testing import make_job

PICTURE = b"\x89PNG\r\n\x1a\n and so on"
PAGE = b"<script>alert(1)</script>"


def made(folder: Path, error: str = "KeyError", screenshot: bytes = PICTURE) -> BundleFiles:
    """Return the files of a bundle that a worker made of some attempt."""
    trail = Trail()
    html = {"Content-Type": "text/html"}
    trail.watch(Exchange(url="https://a.org/?token=s3cret", status=200, body=PAGE, headers=html))
    trail.screenshot = screenshot
    path = FailureBundles(folder, worker="anna").keep(
        make_job({"n": 1}, run="somewhere"),
        Failure("unknown", "'price'", error),
        FailureSignature(error, "shop.py", "parse", 5),
        trail,
    )
    assert path is not None
    return bundle_files(path)


def body(lease: str, files: BundleFiles, /, **changes: Any) -> dict[str, Any]:
    """Return a request with a bundle."""
    return {
        "lease": lease,
        "bundle": msgspec.json.decode(files.bundle),
        "bodies": [base64.b64encode(each).decode() for each in files.bodies],
        "screenshot": base64.b64encode(files.screenshot).decode(),
        **changes,
    }


async def sent(api: Api, tmp_path: Path, **options: Any) -> str:
    """Send a bundle of a claimed job, and return its name."""
    await api.submit("a", **options)
    (claimed,) = await api.claim()
    assert await api.post("/bundles", body(claimed["lease"], made(tmp_path / "worker"))) == {"kept": True}
    (listed,) = (await api.send("GET", "/bundles"))[1]["bundles"]
    name: str = listed["name"]
    return name


async def fetched(api: Api, path: str, key: str | None = None) -> tuple[int, bytes, Any]:
    """Return the status, the bytes and the headers of an answer."""
    headers = {"Authorization": f"Bearer {key or api.key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(URL(f"{api.url}{path}", encoded=True), headers=headers) as response,
    ):
        return response.status, await response.read(), response.headers


async def test_a_bundle_arrives_as_the_worker_made_it_but_belongs_to_the_job_of_the_lease(
    api: Api, tmp_path: Path
) -> None:
    name = await sent(api, tmp_path)
    (listed,) = (await api.send("GET", "/bundles?run=r"))[1]["bundles"]
    assert (listed["run"], listed["kind"], listed["error"]) == ("r", "page", "KeyError")
    assert listed["files"] == ["bundle.json", "page-1.html", "screenshot.png"]
    assert (await api.send("GET", f"/bundles/{name}"))[1] == listed
    assert (await api.send("GET", "/bundles?run=other"))[1] == {"bundles": []}
    bundle, (exchange,) = read_bundle(tmp_path / "bundles" / name)
    assert (bundle.job.run, bundle.job.payload, bundle.worker) == ("r", {"n": "a"}, "anna")
    assert exchange.body == PAGE
    assert "s3cret" not in exchange.url


async def test_pages_of_a_bundle_are_attachments_and_its_screenshot_is_a_picture(api: Api, tmp_path: Path) -> None:
    name = await sent(api, tmp_path)
    status, content, headers = await fetched(api, f"/bundles/{name}/files/page-1.html")
    assert (status, content) == (200, PAGE)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == 'attachment; filename="page-1.html"'
    assert headers["Content-Security-Policy"] == "sandbox"
    status, content, headers = await fetched(api, f"/bundles/{name}/screenshot")
    assert (status, content, headers["Content-Type"]) == (200, PICTURE, "image/png")
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_enough_bundles_of_one_kind_are_enough(api: Api, tmp_path: Path) -> None:
    await sent(api, tmp_path)
    await api.submit("b")
    (claimed,) = await api.claim()
    assert await api.post("/bundles", body(claimed["lease"], made(tmp_path / "other"))) == {"kept": False}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"lease": "forged"}, 409),
        ({"bundle": {}}, 422),
        ({"bundle": []}, 422),
        ({"bodies": []}, 422),
        ({"bodies": ["not base64!"]}, 422),
        ({"bodies": ["AAAA"] * 51}, 422),
        ({"path": "../../x"}, 422),
    ],
)
async def test_a_bundle_that_is_none_is_refused(api: Api, tmp_path: Path, changes: dict[str, Any], status: int) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    assert (await api.send("POST", "/bundles", body(claimed["lease"], made(tmp_path / "w"), **changes)))[0] == status
    assert (await api.send("GET", "/bundles"))[1] == {"bundles": []}


async def test_a_bundle_that_is_too_large_is_refused(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    large = msgspec.json.encode(body(claimed["lease"], made(tmp_path / "w"), screenshot="A" * (12 * 1024 * 1024)))
    status, problem = await api.send("POST", "/bundles", data=large, headers={"Content-Type": "application/json"})
    assert (status, problem["detail"]) == (422, "The screenshot or the text of the bundle is too large.")


async def test_no_name_in_a_bundle_becomes_a_path(api: Api, tmp_path: Path) -> None:
    await api.submit("a", run="../../r")
    (claimed,) = await api.claim()
    files = made(tmp_path / "w")
    bundle = msgspec.json.decode(files.bundle)
    bundle["signature"] |= {"error": "../../../etc/x", "function": "../f"}
    bundle["exchanges"][0]["file"] = "../../../x.html"
    bundle["job"]["run"] = "../../../r"
    assert await api.post("/bundles", body(claimed["lease"], files, bundle=bundle)) == {"kept": True}
    (path,) = (tmp_path / "bundles").iterdir()
    assert sorted(file.name for file in path.iterdir()) == ["bundle.json", "page-1.html", "screenshot.png"]


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "..%2f..%2fkeys.json", "x" * 300, "a%00b", "%C3%A9"])
async def test_no_name_in_a_request_leaves_the_folder(api: Api, tmp_path: Path, name: str) -> None:
    kept = await sent(api, tmp_path)
    for path in (f"/bundles/{name}", f"/bundles/{name}/screenshot", f"/bundles/{kept}/files/{name}"):
        assert (await fetched(api, path))[0] in {404, 405}, path


async def test_a_screenshot_that_is_no_picture_is_left_out(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (claimed,) = await api.claim()
    await api.post("/bundles", body(claimed["lease"], made(tmp_path / "w", screenshot=b"<svg onload=x>")))
    (listed,) = (await api.send("GET", "/bundles"))[1]["bundles"]
    assert listed["files"] == ["bundle.json", "page-1.html"]
    assert (await fetched(api, f"/bundles/{listed['name']}/screenshot"))[0] == 404


async def test_bundles_outside_the_reach_of_a_key_do_not_exist_for_it(api: Api, tmp_path: Path) -> None:
    name = await sent(api, tmp_path)
    other, mine = api.make(Scope.READ, runs=["s"]), api.make(Scope.READ, runs=["r"])
    assert (await api.send("GET", "/bundles", key=other))[1] == {"bundles": []}
    for path in (f"/bundles/{name}", f"/bundles/{name}/screenshot", f"/bundles/{name}/files/bundle.json"):
        assert (await fetched(api, path, other))[0] == 404
        assert (await fetched(api, path, mine))[0] == 200


async def test_a_bundle_of_a_lost_lease_is_refused(api: Api, tmp_path: Path) -> None:
    await api.submit("a")
    (lost,) = await api.claim()
    await api.post("/jobs/release", {"where": {"run": "r"}})
    await api.claim("ben")
    status, problem = await api.send("POST", "/bundles", body(lost["lease"], made(tmp_path / "w")))
    assert (status, problem["code"]) == (409, "LostLeaseError")
