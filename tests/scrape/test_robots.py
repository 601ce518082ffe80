"""robots.txt: which rules apply, how often it is read, and what happens if it cannot be read."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Literal

import pytest
from protego import Protego
from tests.scrape.scripted_site import Answer, NotingPace, ScriptedSite, SwiftClock

from longshore.errors import ConnectionFailedError, ValidationError
from longshore.pacing.contract import HostClosedError
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http import robots
from longshore.scrape.http.client import Http
from longshore.scrape.http.robots import RobotsError

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
    made = Http(clock=clock, pace=pace, private_hosts=("127.0.0.1",))
    yield made
    await made.close()


def rules(site: ScriptedSite, *lines: str, end: str = "\n") -> None:
    site.script["/robots.txt"] = [Answer(end.join(lines))]


async def test_what_is_forbidden_is_not_fetched_and_the_rule_is_named(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: *", "Disallow: /", "Allow: /open", "Disallow: /open/but*not  # here")
    assert (await http.get(f"{site.url}/open/x")).status == 200
    with pytest.raises(RobotsError, match=r"/shut is closed to robots by 'Disallow: /' in") as caught:
        await http.get(f"{site.url}/shut")
    assert not caught.value.retryable
    with pytest.raises(RobotsError, match=r"by 'Disallow: /open/but\*not' in"):
        await http.get(f"{site.url}/open/but-this-not")
    assert [asked.path for asked in site.requests] == ["/robots.txt", "/open/x"]


async def test_the_rules_for_us_count_before_those_for_all(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: other", "Disallow: /ours/and", "", "User-agent: longshore", "Disallow: /ours", "",
          "User-agent: *", "Disallow: /all")  # fmt: skip
    assert (await http.get(f"{site.url}/all")).status == 200
    with pytest.raises(RobotsError, match="'Disallow: /ours' in"):
        await http.get(f"{site.url}/ours/and/theirs")


async def test_rules_are_found_by_the_name_in_the_user_agent(site: ScriptedSite) -> None:
    rules(site, "User-agent: mybot", "Disallow: /")
    http = Http(user_agent="MyBot/1.0 (+https://me.test)")
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/x")
    await http.close()
    assert site.requests[0].headers["User-Agent"] == "MyBot/1.0 (+https://me.test)"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_any_line_ending_will_do(site: ScriptedSite, http: Http, end: str) -> None:
    rules(site, "\ufeffUser-agent: *", "Disallow: /x", end=end)
    with pytest.raises(RobotsError, match="'Disallow: /x' in"):
        await http.get(f"{site.url}/x")


async def test_it_is_read_once_however_many_ask_at_once(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: *", "Disallow: /shut")
    await asyncio.gather(*(http.get(f"{site.url}/{number}") for number in range(20)))
    assert len(site.asked("/robots.txt")) == 1
    assert site.requests[0].path == "/robots.txt"


async def test_it_is_read_again_after_a_day(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    await http.get(f"{site.url}/x")
    clock.passed += DAY - 1
    await http.get(f"{site.url}/x")
    assert len(site.asked("/robots.txt")) == 1
    clock.passed += 1
    rules(site, "User-agent: *", "Disallow: /x")
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/x")


async def test_who_asked_first_may_leave_without_harm_to_the_others(site: ScriptedSite, http: Http) -> None:
    first = asyncio.ensure_future(http.get(f"{site.url}/first"))
    others = [asyncio.ensure_future(http.get(f"{site.url}/{number}")) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    assert [answer.status for answer in await asyncio.gather(*others)] == [200] * 3
    assert first.cancelled()
    assert len(site.asked("/robots.txt")) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_file_that_is_not_there_forbids_nothing(site: ScriptedSite, http: Http, status: int) -> None:
    site.script["/robots.txt"] = [Answer("User-agent: *\nDisallow: /", status=status)]
    assert (await http.get(f"{site.url}/x")).status == 200


async def test_a_file_that_redirects_without_end_forbids_nothing(site: ScriptedSite, http: Http) -> None:
    site.script["/robots.txt"] = [Answer(status=302, headers={"Location": "/robots.txt"})]
    assert (await http.get(f"{site.url}/x")).status == 200


async def test_a_file_that_has_moved_counts_where_it_is(site: ScriptedSite, http: Http) -> None:
    site.script["/robots.txt"] = [Answer(status=301, headers={"Location": "/elsewhere.txt"})]
    site.script["/elsewhere.txt"] = [Answer("User-agent: *\nDisallow: /x")]
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/x")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_where_the_file_cannot_be_read_the_job_comes_back_later_and_later(
    site: ScriptedSite, http: Http, clock: SwiftClock, status: int
) -> None:
    site.script["/robots.txt"] = [Answer(status=status)]
    waits = []
    for _ in range(8):
        with pytest.raises(HostClosedError, match=f"its robots.txt answers {status}") as caught:
            await http.get(f"{site.url}/x")
        waits.append(round(caught.value.seconds))
        before = len(site.requests)
        with pytest.raises(HostClosedError):
            await http.get(f"{site.url}/y")
        assert len(site.requests) == before, "known by now"
        clock.passed += caught.value.seconds
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    site.script["/robots.txt"] = [Answer("")]
    assert (await http.get(f"{site.url}/x")).status == 200


async def test_a_site_that_says_when_to_ask_again_is_asked_then(site: ScriptedSite, http: Http) -> None:
    site.script["/robots.txt"] = [Answer(status=503, headers={"Retry-After": "86400"})]
    with pytest.raises(HostClosedError) as caught:
        await http.get(f"{site.url}/x")
    assert caught.value.snooze == timedelta(days=1)


async def test_after_a_day_of_that_the_attempt_fails(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    site.script["/robots.txt"] = [Answer(status=500)]
    with pytest.raises(HostClosedError):
        await http.get(f"{site.url}/x")
    clock.passed += DAY + 1
    with pytest.raises(RobotsError, match="for more than a day") as caught:
        await http.get(f"{site.url}/x")
    assert caught.value.retryable


async def test_an_older_copy_goes_on_to_count(site: ScriptedSite, http: Http, clock: SwiftClock) -> None:
    rules(site, "User-agent: *", "Disallow: /shut")
    await http.get(f"{site.url}/x")
    clock.passed += DAY
    site.script["/robots.txt"] = [Answer(status=500)]
    assert (await http.get(f"{site.url}/x")).status == 200
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/shut")


async def test_a_site_that_is_not_there_fails_as_it_would_have(http: Http, pace: NotingPace) -> None:
    with pytest.raises(
        ConnectionFailedError, match=r"http://127\.0\.0\.1:9/x could not be fetched: robots.txt is read"
    ):
        await http.get("http://127.0.0.1:9/x")
    assert len(pace.slots) == 3, "not three times for the file, and three times over for the page"
    with pytest.raises(ConnectionFailedError):
        await http.get("http://127.0.0.1:9/x")
    assert len(pace.slots) == 6, "and it is not held against the next"


@pytest.mark.parametrize(
    ("line", "seconds"), [("Crawl-delay: 2.5", 2.5), ("Request-rate: 1/10s", 10), ("Crawl-delay: soon", None)]
)
async def test_the_pace_is_told_what_the_site_asks_for(
    site: ScriptedSite, http: Http, pace: NotingPace, line: str, seconds: float | None
) -> None:
    rules(site, "User-agent: *", line)
    await http.get(f"{site.url}/x")
    await http.get(f"{site.url}/y")
    assert pace.delays == ([] if seconds is None else [(site.host, seconds)])


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
@pytest.mark.parametrize("packed", [False, True])
async def test_of_a_long_file_the_first_part_counts(
    site: ScriptedSite, transport: Literal["aiohttp", "curl"], packed: bool
) -> None:
    beginning = b"User-agent: *\nDisallow: /early\n"
    text = beginning + b"# and so on\n" * 300_000 + b"Disallow: /late\n"
    headers = {"Content-Encoding": "gzip"} if packed else {}
    site.script["/robots.txt"] = [Answer(gzip.compress(text) if packed else text, headers=headers)]
    http = Http(transport=transport, max_bytes=1_000_000)
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/early")
    assert (await http.get(f"{site.url}/late")).status == 200
    await http.close()


# Rules, and for each path whether longshore may fetch it. Our own cases, by RFC 9309 and what its authors' parser does.
FILES: list[tuple[str, dict[str, bool]]] = [
    ("", {"/": True}),
    ("nonsense\nmore: nonsense", {"/": True}),
    ("User-agent: *\nDisallow: /", {"/": False, "/a": False, "/robots.txt": True}),
    ("User-agent: *\nDisallow:", {"/": True}),
    ("User-agent: longshore\nDisallow: /", {"/": False}),
    ("User-agent: Longshore\nDisallow: /", {"/": False}),
    ("user-agent:LONGSHORE\ndisallow:/", {"/": False}),
    ("User-agent: longshore/1.2\nDisallow: /", {"/": False}),
    ("User-agent: longshore/1.2 (+mail)\nDisallow: /", {"/": False}),
    ("User-agent: longshore crawler\nDisallow: /", {"/": False}),
    ("User-agent: longshore # us\nDisallow: /", {"/": False}),
    ("User agent: longshore\nDisallow: /", {"/": False}),
    ("User-agent longshore\nDisallow: /", {"/": False}),
    ("\ufeffUser-agent: longshore\nDisallow: /", {"/": False}),
    ("User-agent: long\nDisallow: /", {"/": True}),
    ("User-agent: longshoreman\nDisallow: /", {"/": True}),
    ("User-agent: other\nDisallow: /", {"/": True}),
    ("User-agent: other\nUser-agent: longshore\nDisallow: /", {"/": False}),
    ("User-agent: longshore\nUser-agent: other\nDisallow: /", {"/": False}),
    ("User-agent: longshore\nUnknown: x\nUser-agent: *\nDisallow: /", {"/": False}),
    ("User-agent: longshore\n\n\nDisallow: /", {"/": False}),
    ("User-agent: longshore\nSitemap: /map\nDisallow: /", {"/": False}),
    ("Disallow: /", {"/": True}),
    ("User-agent: * \nDisallow: /\nUser-agent: longshore\nAllow: /a\nDisallow: /b", {"/c": True, "/b": False}),
    ("User-agent: longshore\nDisallow: /a\nUser-agent: *\nDisallow: /b", {"/a": False, "/b": True}),
    ("User-agent: longshore\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: longshore/2\nDisallow: /b",
     {"/a": False, "/b": False, "/c": True}),
    ("User-agent: *\nDisallow: /a\nAllow: /a/b", {"/a": False, "/a/b": True, "/a/bc": True, "/A": True}),
    ("User-agent: *\nAllow: /a\nDisallow: /a", {"/a": True}),
    ("User-agent: *\nDisallow: /a/b\nAllow: /a", {"/a/b/c": False, "/a/c": True}),
    ("User-agent: *\nDisallow: /*.pdf$", {"/x.pdf": False, "/x.pdf?a": True, "/x.pdfs": True}),
    ("User-agent: *\nDisallow: /*/x", {"/a/x": False, "/x": True, "/a/b/xyz": False}),
    ("User-agent: *\nDisallow: /a$", {"/a": False, "/ab": True}),
    ("User-agent: *\nDisallow: /?q=", {"/?q=1": False, "/?p=1": True}),
    ("User-agent: *\nDisallow: /gr%C3%BC%C3%9Fe", {"/gr%C3%BC%C3%9Fe": False, "/gr%c3%bc%c3%9fe/x": False}),
    ("User-agent: *\nDisallow: /grüße", {"/gr%C3%BC%C3%9Fe": False}),
    ("User-agent: *\nDissalow: /", {"/": False}),
    ("User-agent: *\rDisallow: /a\r\nDisallow: /b", {"/a": False, "/b": False, "/c": True}),
    # lines
    ("user-agent: longshore\nbar: /", {"/": True}),
    ("foo: longshore\nDisallow: /", {"/": True}),
    ("User-agent longshore\ndisallow /", {"/": False}),
    ("USER-AGENT: longshore\nALLOW: /a/\nDISALLOW: /", {"/a/b": True, "/b": False}),
    ("uSER-aGENT: longshore\naLLOW: /a/\ndISALLOW: /", {"/a/b": True, "/b": False}),
    ("User-agent: longshore\n# Disallow: /\nDisallow: /a#b\nAllow: /", {"/b": True, "/a": False, "/ab": False}),
    # groups
    ("Allow: /early/\n\nUser-agent: longshore\nDisallow: /\nAllow: /a/\nUser-agent: other\nDisallow: /\n"
     "Allow: /b/\n\n\nAllow: /c/\nUser-agent: third\n\nUser-agent: longshore\nAllow: /d/\nDisallow: /",
     {"/a/": True, "/d/": True, "/b/": False, "/c/": False, "/early/": False}),
    ("Allow: /early/\n\nUser-agent: other\nDisallow: /\nUser-agent: longshore\nDisallow: /\nAllow: /b/\n\n\n"
     "Allow: /c/", {"/b/": True, "/c/": True, "/d/": False, "/early/": False}),
    ("User-agent: longshore\n\nUser-agent: other\nAllow: /d/\nDisallow: /", {"/d/": True, "/e": False}),
    ("User-agent: other\nSitemap: http://x.test/map\nUser-agent: *\nDisallow: /", {"/": False}),
    ("User-agent: *\nDisallow: /\nUser-agent: longshore more\nAllow: /a/\nDisallow: /", {"/a/b": True, "/b": False}),
    ("user-agent: *\nallow: /\nuser-agent: longshore\ndisallow: /", {"/a": False}),
    ("user-agent: *\nallow: /\nuser-agent: other\ndisallow: /", {"/a": True}),
    ("user-agent: other\nallow: /\nuser-agent: third\ndisallow: /\nuser-agent: fourth\ndisallow: /", {"/a": True}),
    ("User-agent: *\nDisallow: /a/\nUser-agent: longshore\nDisallow: /b/", {"/a/c": True, "/b/c": False}),
    # which rule counts
    ("User-agent: *\ndisallow: /A/", {"/a/": True, "/A/": False}),
    ("User-agent: *\ndisallow: /a/p.html\nallow: /a/", {"/a/p.html": False, "/a/": True}),
    ("User-agent: *\nallow: /a/p.html\ndisallow: /a/", {"/a/p.html": True, "/a/": False}),
    ("User-agent: *\ndisallow: \nallow: ", {"/a": True}),
    ("User-agent: *\ndisallow: /\nallow: /", {"/a": True}),
    ("User-agent: *\ndisallow: /a\nallow: /a/", {"/a": False, "/a/": True}),
    ("User-agent: *\ndisallow: /a/p.html\nallow: /a/p.html", {"/a/p.html": True}),
    ("User-agent: *\nallow: /page\ndisallow: /*.html", {"/page.html": False, "/page": True}),
    ("User-agent: *\nallow: /a/page.\ndisallow: /*.html", {"/a/page.html": True, "/a/b.html": False}),
    ("User-agent: *\nallow: /p\ndisallow: /", {"/page": True, "/a": False}),
    ("User-agent: *\nallow: /page\ndisallow: /*.htm", {"/page.htm": False}),
    ("User-agent: *\nallow: /$\ndisallow: /", {"/": True, "/page.html": False}),
    # encoded and special characters
    ("User-agent: *\nDisallow: /\nAllow: /a?b=c&u=http://x.test?d&e", {"/a?b=c&u=http://x.test?d&e": True}),
    ("User-agent: *\nDisallow: /\nAllow: /a/名", {"/a/%E5%90%8D": True, "/a/名": True, "/a/b": False}),
    ("User-agent: *\nDisallow: /\nAllow: /a/%E5%90%8D", {"/a/%E5%90%8D": True, "/a/名": True, "/a/b": False}),
    ("User-agent: *\nDisallow: /\nAllow: /%61/b", {"/%61/b": True, "/a/b": True, "/b": False}),
    ("User-agent: *\nDisallow: /a/b/c\nAllow: /a/*/d", {"/a/b/c": False, "/a/c": True, "/a//c": True, "/a/x/c": True}),
    ("User-agent: *\nDisallow: /a/b$\nAllow: /a/b/d", {"/a/b": False, "/a/b/d": True, "/a/b/": True, "/a/b/c": True}),
    ("User-agent: *\nAllow: /a/index.html\nDisallow: /", {"/a/": True, "/a/index.html": True, "/a/index.htm": False}),
    # paths
    *((f"User-agent: *\ndisallow: /\nallow: /cat{end}",
       {"/cat": True, "/cat.html": True, "/cat/a.html": True, "/cats": True, "/cats/a.html": True, "/cat.html?id": True,
        "/dog": False, "/Cat.asp": False, "/bobcat": False, "/?id=cat": False}) for end in ("", "*")),
    ("User-agent: *\ndisallow: /\nallow: /cat/",
     {"/cat/": True, "/cat/a": True, "/cat/?a": True, "/cat/a.html": True, "/cat/?id=1": True, "/cat": False,
      "/cat.html": False, "/Cat/A.html": False, "/dog": False}),
    ("User-agent: *\ndisallow: /\nallow: /*.php",
     {"/a.php": True, "/b/a.php": True, "/b/a.php?c": True, "//b/a.php.file.html": True, "/a.php/": True,
      "/a?f=a.php/": True, "/php/": False, "/a?php": False, "/a.PHP": False, "/b": False}),
    ("User-agent: *\ndisallow: /\nallow: /*.php$",
     {"/a.php": True, "/b/a.php": True, "/a.php?c": False, "/a.php/": False, "/a.php5": False, "/php/": False,
      "/a?php": False, "/bphpb": False, "//a.PHP": False}),
    ("User-agent: *\ndisallow: /\nallow: /cat*.php",
     {"/cat.php": True, "/cats/a.php?b": True, "/Cat.PHP": False, "/dog": False}),
    # of a long line, the beginning counts
    (f"User-agent: *\nDisallow: /{'a' * 20_000}/b", {f"/{'a' * 18_000}": False, f"/{'a' * 16_000}": True}),
    (f"User-agent: *\nDisallow: /\nAllow: /{'a' * 20_000}/b", {f"/{'a' * 18_000}/c": True, "/a": False}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "allowed"), FILES)
async def test_the_rules_of_a_file_are_those_that_its_author_meant(
    site: ScriptedSite, http: Http, text: str, allowed: dict[str, bool]
) -> None:
    site.script["/robots.txt"] = [Answer(text)]
    for path, expected in allowed.items():
        try:
            await http.permit(f"{site.url}{path}")
        except RobotsError:
            assert not expected, path
        else:
            assert expected, path


async def test_the_first_page_of_a_site_does_not_wait_behind_its_robots_txt(
    site: ScriptedSite, http: Http, pace: NotingPace
) -> None:
    rules(site, "User-agent: *", "Disallow: /private")
    await http.get(f"{site.url}/1")
    assert pace.slots == [(site.host, "")]
    await asyncio.gather(http.get(f"{site.url}/2"), http.get(f"{site.url}/3"))
    assert pace.slots == [(site.host, "")] * 3


async def test_of_those_who_wait_for_robots_txt_only_the_first_goes_out_with_it(
    site: ScriptedSite, http: Http, pace: NotingPace
) -> None:
    await asyncio.gather(*(http.get(f"{site.url}/{number}") for number in range(5)))
    assert pace.slots == [(site.host, "")] * 5, "one for robots.txt and its page, and one for each other page"


async def test_where_a_site_asks_for_a_delay_its_first_page_waits_too(
    site: ScriptedSite, http: Http, pace: NotingPace
) -> None:
    rules(site, "User-agent: *", "Crawl-delay: 4")
    await http.get(f"{site.url}/1")
    assert pace.slots == [(site.host, "")] * 2


async def test_robots_can_be_switched_off_and_on(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: *", "Disallow: /")
    assert (await http.attempt(robots=False).get(f"{site.url}/x")).status == 200
    off = Http(robots=False)
    assert (await off.get(f"{site.url}/x")).status == 200
    assert len(site.asked("/robots.txt")) == 0
    with pytest.raises(RobotsError):
        await off.attempt(robots=True).get(f"{site.url}/x")
    await off.close()


async def test_a_redirect_to_another_site_asks_that_one(site: ScriptedSite, http: Http) -> None:
    async with ScriptedSite().running() as other:
        rules(other, "User-agent: *", "Disallow: /there")
        site.script["/x"] = [Answer(status=302, headers={"Location": f"{other.url}/there"})]
        with pytest.raises(RobotsError, match="/there is closed"):
            await http.get(f"{site.url}/x")
        assert other.asked("/there") == []


async def test_who_watches_is_told_neither_of_the_file_nor_of_what_was_not_sent(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: *", "Disallow: /shut")
    seen: list[Exchange] = []
    watched = http.attempt(watch=seen.append, ends_at=time.monotonic() + 60)
    await watched.get(f"{site.url}/x")
    with pytest.raises(RobotsError):
        await watched.get(f"{site.url}/shut")
    assert [exchange.url for exchange in seen] == [f"{site.url}/x"]


async def test_only_so_many_sites_are_remembered(
    site: ScriptedSite, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots, "REMEMBERED", 2)
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "127.0.0.1"):
        await http.get(f"http://{name}:{site.port}/x")
    assert len(site.asked("/robots.txt")) == 4


async def test_passwords_in_a_url_are_not_sent_for_the_file(site: ScriptedSite, http: Http) -> None:
    await http.get(f"http://ann:hunter2@{site.host}/x")
    asked, page = site.requests
    assert "Authorization" not in asked.headers
    assert "Authorization" in page.headers


async def test_closing_ends_what_is_being_read(site: ScriptedSite) -> None:
    waiting = asyncio.Event()

    class Never(NotingPace):
        async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

    http = Http(pace=Never())
    fetch = asyncio.ensure_future(http.get(f"{site.url}/x"))
    await waiting.wait()
    await http.close()
    with pytest.raises(asyncio.CancelledError):
        await fetch


async def test_a_file_made_to_keep_us_busy_does_not(
    site: ScriptedSite, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding the rule for the message once blocked the event loop for hours."""
    nested = [f"Disallow: /{'x' * length}" for length in range(1, 500)]
    rules(site, "User-agent: *", "Disallow:" + " " * 200_000, *nested, *(f"Disallow: /y{n}" for n in range(5_000)))
    read: list[int] = []
    parse = Protego.parse

    def counted(text: str) -> Protego:
        read.append(len(text))
        return parse(text)

    monkeypatch.setattr(Protego, "parse", counted)
    with pytest.raises(RobotsError, match=f"by 'Disallow: /{'x' * 499}' in"):
        await http.get(f"{site.url}/{'x' * 600}")
    assert len(read) < 200
    assert len([size for size in read if size > 1000]) < 10


@pytest.mark.parametrize(("asked", "delay"), [("1e400", None), ("nan", None), ("-3", None), ("999999999", DAY)])
async def test_a_crawl_delay_is_a_number_of_seconds_and_a_day_at_most(
    site: ScriptedSite, http: Http, pace: NotingPace, asked: str, delay: float | None
) -> None:
    rules(site, "User-agent: *", f"Crawl-delay: {asked}")
    await http.get(f"{site.url}/x")
    assert [seconds for _, seconds in pace.delays] == ([] if delay is None else [delay])


async def test_what_is_no_text_is_no_url(site: ScriptedSite, http: Http) -> None:
    rules(site, "User-agent: *", "Disallow: /shut")
    with pytest.raises(ValidationError, match="is not a URL"):
        await http.get(f"{site.url}/\ud800")
