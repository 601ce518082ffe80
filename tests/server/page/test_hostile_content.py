"""Payloads, errors, names and URLs come from pages of the web: whatever they contain, the page shows it as text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from tests.server.page.conftest import Visitor

from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Failed, Settlement
from longshore.server.pages.words import web_link

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}</textarea><svg/onload=alert(3)>"
LEASE = timedelta(hours=1)
_ATTRIBUTES = ("onerror", "onload", "onclick", "style", "srcdoc")


def check(page: HTMLParser) -> None:
    """Fail if something of a job became part of the page."""
    assert all(each.attributes.get("nonce") for each in page.css("script"))
    for node in page.css("*"):
        assert not set(node.attributes) & set(_ATTRIBUTES), node.html
        for name in ("href", "src", "action", "data-href"):
            value = node.attributes.get(name)
            assert not (value or "").lower().strip().startswith(("javascript:", "data:", "vbscript:")), node.html


async def _scene(visitor: Visitor) -> dict[str, str]:
    queue = visitor.api.served.queue
    urls = ["javascript:alert(1)", f"https://a.test/{EVIL}", "data:text/html,<script>alert(1)</script>"]
    jobs = [new_job(EVIL, {"url": url, EVIL: EVIL}, run=EVIL, partition=EVIL, host=EVIL) for url in urls]
    await queue.submit(jobs)
    worker = WorkerId(EVIL, EVIL)
    await require(queue, WorkerRegistry, "lacks presence").register(
        worker, LEASE, WorkerInfo(machine=EVIL, kinds=(EVIL,))
    )
    first, second, _ = await queue.claim(Want(worker=worker, limit=3, lease=LEASE))
    failure = Failure(EVIL, EVIL, EVIL, retryable=False, traceback=EVIL, handler_version=EVIL)
    await queue.settle([Settlement(first, Failed(failure), 1.0), Settlement(second, Completed({EVIL: EVIL}), 1.0)])
    return {"failed": first.job.id, "completed": second.job.id}


async def test_no_page_runs_anything_that_a_job_contains(visitor: Visitor) -> None:
    from urllib.parse import quote

    ids = await _scene(visitor)
    await visitor.log_in()
    evil = quote(EVIL)
    paths = [
        "/", f"/?q={evil}", "/failures", "/hosts", "/workers", f"/run?name={evil}", f"/run/records?name={evil}",
        f"/job?id={ids['failed']}", f"/job?id={ids['completed']}", "/jobs", f"/jobs?run={evil}&error={evil}",
        f"/submit?kind={evil}&run={evil}", f"/confirm?verb=drain&worker={evil}", f"/jobs?kind={evil}",
        f"/jobs?q={evil}", f"/jobs?host={evil}&partition={evil}", f"/confirm?verb=retry&run={evil}&state=failed",
        f"/confirm?verb=retry&run={evil}&error={evil}&back={evil}", f"/run?name=x{evil}",
        f"/confirm?verb=pause&run={evil}",
        f"/job?id={evil}", f"/bulk?bulk={evil}", f"/login?next={evil}", f"/login?code={evil}",
    ]  # fmt: skip
    for path in paths:
        answer = await visitor.get(path)
        assert answer.status in {200, 401, 404, 422}, (path, answer.text)
        check(answer.page)
        assert "<script>alert" not in answer.text, path


async def test_the_live_stream_sends_names_as_text(visitor: Visitor) -> None:
    from urllib.parse import quote

    await _scene(visitor)
    await visitor.log_in()
    for query in ("page=overview", f"page=run&run={quote(EVIL)}", "page=failures", "page=workers", "page=hosts"):
        async with visitor.session.get(f"{visitor.url}/live?{query}") as stream:
            # The first look comes at once; it needs no tick of the clock.
            event = (await stream.content.readuntil(b"\n\n")).decode()
        lines = [line.removeprefix("data: ") for line in event.splitlines() if line.startswith("data: ")]
        assert lines and "<script>alert" not in event
        check(HTMLParser("\n".join(lines)))


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "//a.test/x", "file:///etc/passwd", "http://[:"],
)
def test_only_addresses_of_the_web_become_links(url: str) -> None:
    assert "<a " not in web_link(url)


def test_a_link_to_the_web_tells_the_other_site_nothing() -> None:
    link = HTMLParser(str(web_link('https://a.test/"><script>'))).css_first("a")
    assert link is not None
    assert link.attributes["rel"] == "noopener noreferrer nofollow"
    assert link.attributes["href"] == 'https://a.test/"><script>'
