"""Retries: when, how often, after which wait; and when the job returns later instead."""

from __future__ import annotations

import pickle
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from email.utils import formatdate

import pytest
from tests.scrape.scripted_site import Answer, NotingPace, ScriptedSite, SwiftClock

from longshore import handler
from longshore.errors import ConnectionFailedError
from longshore.handlers.kit import AsyncKit
from longshore.job import Job
from longshore.pacing.contract import HostClosedError
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.client import Http, StatusError
from longshore.scrape.http.response import retry_after
from longshore.testing import Snoozed, run_handler

DAY = 24 * 3600


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture
def clock() -> SwiftClock:
    return SwiftClock()


@pytest.fixture
def pace() -> NotingPace:
    return NotingPace()


@pytest.fixture
async def http(clock: SwiftClock, pace: NotingPace) -> AsyncIterator[Http]:
    made = Http(clock=clock, pace=pace, robots=False, private_hosts=("localhost",))
    yield made
    await made.close()


def busy(after: object = None, status: int = 429) -> Answer:
    return Answer(status=status, headers={} if after is None else {"Retry-After": str(after)})


@pytest.mark.ledger("E13")
async def test_an_error_that_passes_is_tried_again(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    site.script["/x"] = [Answer(status=503), Answer(status=500), Answer("at last")]
    assert (await http.get(f"{site.url}/x")).text == "at last"
    first, second = clock.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


async def test_a_dropped_connection_is_tried_again(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer(hangs_up=True), Answer("at last")]
    assert (await http.get(f"{site.url}/x")).text == "at last"


async def test_it_is_tried_three_times_in_all(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    site.script["/x"] = [Answer(status=502)]
    with pytest.raises(StatusError):
        await http.get(f"{site.url}/x")
    site.script["/y"] = [Answer(hangs_up=True)]
    with pytest.raises(ConnectionFailedError):
        await http.get(f"{site.url}/y")
    assert [status for _, _, status, _ in pace.answers] == [502, 502, 502, None, None, None]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_an_error_that_stays_is_not_tried_again(site: ScriptedSite, http: Http, status: int) -> None:
    site.script["/x"] = [Answer(status=status)]
    with pytest.raises(StatusError):
        await http.get(f"{site.url}/x")
    assert len(site.requests) == 1


async def test_what_may_not_be_sent_twice_is_sent_once(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer(status=503)]
    with pytest.raises(StatusError):
        await http.post(f"{site.url}/x", data="pay")
    with pytest.raises(StatusError):
        await http.request("PATCH", f"{site.url}/x", data="pay")
    assert len(site.requests) == 2


async def test_a_site_is_left_alone_as_long_as_it_asks(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    site.script["/x"] = [busy(20), busy(7, 503), Answer("at last")]
    assert (await http.get(f"{site.url}/x")).text == "at last"
    first, second = clock.slept
    assert 20 <= first <= 20.5
    assert 7 <= second <= 8


async def test_a_site_that_asks_for_a_day_gets_it_and_no_worker_waits(
    site: ScriptedSite, http: Http, clock: SwiftClock, pace: NotingPace
) -> None:
    site.script["/x"] = [busy(DAY)]
    with pytest.raises(HostClosedError, match="it answered 429 Too Many Requests") as caught:
        await http.get(f"{site.url}/x")
    assert caught.value.snooze == timedelta(days=1)
    assert clock.slept == []
    assert pace.answers == [(site.host, "", 429, DAY)]


async def test_who_judges_answers_himself_is_given_them(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [busy(DAY)]
    assert (await http.get(f"{site.url}/x", check=False)).status == 429
    assert len(site.requests) == 1


async def test_an_attempt_about_to_end_does_not_wait(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    site.script["/x"] = [busy(20)]
    with pytest.raises(HostClosedError):
        await http.attempt(ends_at=time.monotonic() + 10).get(f"{site.url}/x")
    site.script["/y"] = [Answer(status=500)]
    with pytest.raises(StatusError):
        await http.attempt(ends_at=time.monotonic()).get(f"{site.url}/y")
    assert (len(site.requests), clock.slept) == (2, [])


async def test_every_request_asks_the_pace_and_tells_it(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    site.script["/x"] = [busy(3), Answer(status=403)]
    site.script["/y"] = [Answer(status=302, headers={"Location": f"http://localhost:{site.port}/z"})]
    with pytest.raises(StatusError):
        await http.get(f"{site.url}/x")
    await http.get(f"{site.url}/y")
    there = f"localhost:{site.port}"
    assert pace.slots == [(site.host, "")] * 3 + [(there, "")]
    assert [answer[2:] for answer in pace.answers] == [(429, 3), (403, None), (302, None), (200, None)]
    assert pace.answers[3][0] == there


async def test_the_pace_is_told_where_there_was_no_answer(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    site.script["/x"] = [Answer(hangs_up=True)]
    with pytest.raises(ConnectionFailedError):
        await http.get(f"{site.url}/x")
    assert pace.answers == [(site.host, "", None, None)] * 3


async def test_the_pace_knows_how_long_we_may_wait(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    await http.get(f"{site.url}/x")
    assert pace.patience == 30
    await http.attempt(ends_at=time.monotonic() + 5).get(f"{site.url}/x")
    assert 0 < pace.patience <= 5


async def test_nothing_is_sent_to_a_host_that_is_closed(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    pace.closed = lambda host, identity: HostClosedError(host, 90, "too many answers of 429")
    with pytest.raises(HostClosedError, match="takes no requests for 90 s: too many answers of 429"):
        await http.get(f"{site.url}/x")
    assert site.requests == []


def test_a_job_whose_host_is_closed_comes_back_at_no_cost() -> None:
    @handler("page")
    async def page(job: Job, kit: AsyncKit) -> None:
        await kit.http.get(job.payload["url"])

    closed = HostClosedError("h.test", 90, "why")
    outcome = run_handler(page, {"url": "http://h.test/"}, http={"http://h.test/": closed})
    assert outcome == Snoozed(timedelta(seconds=90))


def test_a_closed_host_can_be_sent_between_processes() -> None:
    again = pickle.loads(pickle.dumps(HostClosedError("h", 90, "why")))
    assert (again.host, again.seconds, again.why, again.snooze) == ("h", 90, "why", timedelta(seconds=90))


async def test_who_watches_is_told_of_every_try(site: ScriptedSite, http: Http) -> None:
    seen: list[Exchange] = []
    site.script["/x"] = [Answer("sorry", status=503), Answer(status=302, headers={"Location": "/y"})]
    await http.attempt(watch=seen.append).get(f"{site.url}/x", headers={"X-Mine": "1"})
    failed, done = seen
    assert (failed.status, failed.body, failed.cached) == (503, b"sorry", False)
    assert (done.method, done.url, done.final_url) == ("GET", f"{site.url}/x", f"{site.url}/y")
    assert (done.status, done.body, done.identity, done.error) == (200, b"hello", "", "")
    assert done.request_headers["X-Mine"] == "1"
    assert done.request_headers["User-Agent"].startswith("longshore/")
    assert done.headers["Content-Length"] == "5"
    assert done.at > 0
    assert done.seconds > 0


async def test_who_watches_is_told_where_there_was_no_answer(site: ScriptedSite, http: Http) -> None:
    seen: list[Exchange] = []
    site.script["/x"] = [Answer(hangs_up=True)]
    with pytest.raises(ConnectionFailedError):
        await http.attempt(watch=seen.append).post(f"{site.url}/x", data="sent")
    (failed,) = seen
    assert (failed.status, failed.request_body) == (None, b"sent")
    assert "could not be fetched" in failed.error


NOW = 1_800_000_000.0


@pytest.fixture
def in_kolkata() -> Iterator[None]:
    """Let this machine be in a time zone other than GMT."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("1.5", 1.5),
        (str(DAY // 2), DAY // 2),
        (str(400 * DAY), DAY),
        ("9" * 400, DAY),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 90, usegmt=True), 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY),
        (time.asctime(time.gmtime(NOW + 90)), 90),
        ("-5", None),
        ("soon", None),
        ("²", None),
        ("", None),
        ("Mon, 99 Foo 2026", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(said: str, seconds: float | None, in_kolkata: None) -> None:
    assert retry_after({"Retry-After": said}, NOW) == seconds
