"""Pages of very large queues stay readable: long lists are cut, and say how much they leave out."""

from __future__ import annotations

from tests.server.page.conftest import Visitor

from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.outcome import Failed, Settlement
from longshore.queue import Selection


async def test_a_thousand_runs_are_shown_in_pages_and_found_by_name(visitor: Visitor) -> None:
    queue = visitor.api.served.queue
    await queue.submit([new_job("page", {"n": 1}, run=f"run-{number:04}") for number in range(1000)])
    await visitor.log_in()
    seen: list[str] = []
    address = "/"
    while address:
        page = (await visitor.get(address)).page
        seen += [each.text() for each in page.css("table.runs td.name a")]
        link = page.css_first(".pager a[rel=next]")
        address = "" if link is None else link.attributes["href"] or ""
    assert (len(seen), len(set(seen))) == (1000, 1000)
    found = (await visitor.get("/?q=RUN-012")).page
    assert {each.text() for each in found.css("table.runs td.name a")} == {f"run-012{n}" for n in range(10)}
    assert "Show all 1,000" in (await visitor.get("/?q=nothing-like-it")).text


async def test_long_lists_of_a_run_are_cut_and_say_so(visitor: Visitor) -> None:
    queue = visitor.api.served.queue
    await queue.submit(
        [
            new_job("page", {"n": n}, run="r", partition=f"part {n:03}", host=f"host{n:03}.test", max_attempts=1)
            for n in range(450)
        ]
    )
    worker = WorkerId("w", "w")
    leases = await queue.claim(Want(worker=worker, limit=60))
    kinds = [f"{'abcdefghij'[n // 10]}{'klmnopqrst'[n % 10]} went wrong" for n in range(60)]
    failures = [Failure("crash", text, exception=f"{text[:2]}Error", retryable=False) for text in kinds]
    await queue.settle([Settlement(lease, Failed(why), 1.0) for lease, why in zip(leases, failures, strict=True)])
    await visitor.log_in()
    async with visitor.session.get(f"{visitor.url}/live?page=run&run=r") as stream:
        event = (await stream.content.readuntil(b"\n\n")).decode()
        while "more kinds" not in event:  # failures and hosts are read beside the first look
            visitor.api.served.clock.advance(1.0)  # type: ignore[attr-defined]
            event += (await stream.content.readuntil(b"\n\n")).decode()
    page = await visitor.get("/run?name=r")
    text = page.page.text()
    assert "The first 400 of 450 partitions." in text
    assert "And 10 more kinds." in text
    assert "And 340 more hosts." in text
    assert len(page.text) < 500_000
    assert len(await queue.jobs(Selection())) == 450


async def test_a_job_with_a_huge_payload_and_an_endless_message_is_shown_in_part(visitor: Visitor) -> None:
    queue = visitor.api.served.queue
    await queue.submit([new_job("page", {"text": "x" * 2_000_000}, run="r", key="a", max_attempts=1)])
    (lease,) = await queue.claim(Want(worker=WorkerId("w", "w")))
    failure = Failure("crash", "m" * 50_000, retryable=False, traceback="line\n" * 5000)
    await queue.settle([Settlement(lease, Failed(failure), 1.0)])
    await visitor.log_in()
    for path in (f"/job?id={lease.job.id}", "/jobs?run=r", "/jobs?q=xxx"):
        answer = await visitor.get(path)
        assert (answer.status, len(answer.text) < 200_000) == (200, True), path
    assert "prints all of it" in (await visitor.get(f"/job?id={lease.job.id}")).text
