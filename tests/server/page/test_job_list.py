"""The list of jobs: each condition in the address narrows it, pages keep the conditions, and reading is bounded."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from tests.server.page.conftest import Visitor

from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.outcome import Failed, Settlement
from longshore.server.pages import job_list


def _listed(page: HTMLParser) -> list[str]:
    return [each.text().strip() for each in page.css("table.jobs .subject a")]


async def _fill(visitor: Visitor) -> None:
    """Add four jobs; each differs from the first in some of the fields."""
    queue = visitor.api.served.queue
    await queue.submit(
        [
            new_job("page", {"url": "http://a.test/1"}, run="r", partition="NV", host="a.test"),
            new_job("image", {"url": "http://b.test/2"}, run="r", partition="CA", host="b.test"),
            new_job(
                "page", {"url": "http://b.test/3", "note": "100% Äpfel & <b>"}, run="s", partition="CA", host="b.test"
            ),
            new_job("page", {"url": "http://c.test/4"}, run="t", host="c.test"),
        ]
    )
    (lease,) = await queue.claim(Want(worker=WorkerId("w", "w"), run="t"))
    failure = Failure("timeout", "no answer", exception="TimeoutError", retryable=False)
    assert await queue.settle([Settlement(lease, Failed(failure), 1.0)]) == [True]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({}, [1, 2, 3, 4]),
        ({"state": "failed"}, [4]),
        ({"state": "pending"}, [1, 2, 3]),
        ({"run": "r"}, [1, 2]),
        ({"kind": "image"}, [2]),
        ({"partition": "CA"}, [2, 3]),
        ({"host": "b.test"}, [2, 3]),
        ({"error": "Timeout*"}, [4]),
        ({"error": "timeout"}, [4]),
        ({"q": "äpfel & <b>"}, [3]),
        ({"q": "no answer"}, [4]),
        ({"host": "b.test", "kind": "page", "state": "pending"}, [3]),
        ({"run": "nothing"}, []),
    ],
)
async def test_each_condition_in_the_address_narrows_the_list(
    visitor: Visitor, conditions: dict[str, str], found: list[int]
) -> None:
    await _fill(visitor)
    await visitor.log_in()
    answer = await visitor.get(f"/jobs?{urlencode(conditions)}")
    assert answer.status == 200
    assert [int(name.rpartition("/")[2]) for name in _listed(answer.page)] == found
    for name, value in conditions.items():  # the form shows them, so that people can change one of them
        if name != "state":
            (field,) = answer.page.css(f"form:not(.find) [name={name}]:not([type=hidden])")
            assert field.attributes["value"] == value
    assert ("No job matches." in answer.text) is not bool(found)


async def test_a_state_that_is_none_is_refused_with_those_there_are(visitor: Visitor) -> None:
    await visitor.log_in()
    answer = await visitor.get("/jobs?state=odd")
    assert answer.status == 422 and "pending" in answer.text


async def test_the_next_page_goes_on_with_the_same_conditions(visitor: Visitor) -> None:
    await visitor.api.submit(*(f"k{n:03}" for n in range(120)), run="r")
    await visitor.api.submit("other", run="s")
    await visitor.log_in()
    address, seen = "/jobs?run=r&state=pending", []
    while address:
        page = (await visitor.get(address)).page
        seen.append(len(_listed(page)))
        link = page.css_first(".pager a[rel=next]")
        address = "" if link is None else link.attributes["href"] or ""
        assert not address or ("run=r" in address and "state=pending" in address)
    assert seen == [50, 50, 20]


async def test_a_search_that_finds_little_stops_and_can_be_continued(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "_READ", 500)
    await visitor.api.submit(*(f"k{n:04}" for n in range(1200)))
    await visitor.log_in()
    address, pages = "/jobs?q=k1199", 0
    while not _listed(page := (await visitor.get(address)).page):
        (link,) = [each for each in page.css("a") if each.text() == "Search on"]
        address, pages = link.attributes["href"] or "", pages + 1
    assert pages == 2


async def test_an_empty_queue_says_so(visitor: Visitor) -> None:
    await visitor.log_in()
    assert "There are no jobs yet." in (await visitor.get("/jobs")).text
    assert "There are no jobs yet." in (await visitor.get("/")).text
