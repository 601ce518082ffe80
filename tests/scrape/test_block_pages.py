"""Block pages: an ordinary status, and a page that says no."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from tests.scrape.proxy_servers import ProxyServer, running
from tests.scrape.scripted_site import Answer, NotingPace, ScriptedSite, SwiftClock

from longshore import BlockPage, BlockPageError, handler
from longshore.errors import Failure, HandlerFileError, UsageError
from longshore.handlers.kit import AsyncKit
from longshore.handlers.offline_run import failure_of, run_offline
from longshore.job import Job
from longshore.pacing.contract import BLOCK_PAGE, HostClosedError
from longshore.pacing.limiter import LearnedLimiter
from longshore.scrape.block_pages import BlockDetector, parse_block_pages
from longshore.scrape.block_pages.known import KNOWN, LONGEST
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.client import Http
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.response import Response
from longshore.scrape.proxies import ProxyLimits, ProxyPool, Strategy
from longshore.testing import make_job

PAGES = Path(__file__).parent / "block_pages"
BLOCKED = {
    "cloudflare-challenge.html": "a challenge of Cloudflare",
    "cloudflare-block.html": "a block page of Cloudflare",
    "akamai-block.html": "a block page of Akamai",
    "akamai-challenge.html": "a challenge of Akamai",
    "imperva-block.html": "a block page of Imperva",
    "datadome-challenge.html": "a challenge of DataDome",
    "human-challenge.html": "a challenge of HUMAN",
    "aws-waf-challenge.html": "a challenge of AWS WAF",
    "sucuri-block.html": "a block page of Sucuri",
}
ORDINARY = sorted({path.name for path in PAGES.glob("*.html")} - set(BLOCKED))
CHALLENGE = (PAGES / "cloudflare-challenge.html").read_text()
HTML = {"Content-Type": "text/html; charset=utf-8"}


def page(
    body: str | bytes, *, url: str = "https://shop.example/x", status: int = 200, headers: Mapping[str, str] = HTML
) -> Response:
    return Response(url=url, status=status, headers=headers, body=body.encode() if isinstance(body, str) else body)


def why(response: Response, *rules: BlockPage, asked: str = "", known: bool = True) -> str:
    return BlockDetector(rules, known=known).why(response, asked or response.url)


@pytest.mark.parametrize("body", ["<div>" * 100_000, "<p>" * 5_000_000, f"<a {'x ' * 20_000}>", "<b><i>" * 20_000])
def test_a_hostile_page_is_fetched_whatever_the_rules_are(body: str) -> None:
    rules = BlockPage(title="Robot Check"), BlockPage(selector="form #captcha"), BlockPage(text="unusual traffic")
    assert why(page(body), *rules) == ""


def test_a_rule_is_looked_for_at_the_beginning_of_a_page() -> None:
    for rule in (BlockPage(text="unusual"), BlockPage(title="unusual"), BlockPage(selector="title")):
        text = "<title>unusual</title>"
        assert why(page(text + " " * 2_000_000), rule)
        assert why(page(" " * 2_000_000 + text), rule) == ""


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture
def pace() -> NotingPace:
    return NotingPace()


@pytest.fixture
async def http(pace: NotingPace) -> AsyncIterator[Http]:
    made = Http(clock=SwiftClock(), pace=pace, robots=False)
    yield made
    await made.close()


# The rules


@pytest.mark.parametrize(("file", "name"), BLOCKED.items())
def test_the_block_pages_of_delivery_networks_are_known(file: str, name: str) -> None:
    assert why(page((PAGES / file).read_bytes())) == name
    assert why(page((PAGES / file).read_bytes()), known=False) == ""


def test_every_known_rule_has_a_page() -> None:
    assert set(BLOCKED.values()) == {rule.name for rule in KNOWN}


@pytest.mark.parametrize("file", ORDINARY)
def test_a_page_that_only_mentions_them_is_a_page(file: str) -> None:
    assert why(page((PAGES / file).read_bytes())) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("cf-mitigated", "challenge"), ("x-amzn-waf-action", "captcha"), ("x-amzn-waf-action", "challenge")],
)
def test_a_header_tells_it_as_well(name: str, value: str) -> None:
    assert why(page("<h1>Hello</h1>", headers={**HTML, name: value})).startswith("a challenge of")


def test_long_pages_and_other_media_are_pages() -> None:
    assert why(page(CHALLENGE + " " * LONGEST)) == ""
    assert why(page(CHALLENGE, headers={"Content-Type": "application/json"})) == ""


@pytest.mark.parametrize(
    ("rule", "blocked", "passes"),
    [
        (BlockPage(text="unusual TRAFFIC"), "<p>Unusual traffic</p>", "<p>Usual traffic</p>"),
        (BlockPage(title="robot check"), "<title> Robot\nCheck </title>", "<title>Shop</title><h1>Robot Check</h1>"),
        (BlockPage(selector="#captcha"), "<form id=captcha></form>", "<form></form>"),
        (BlockPage(shorter_than=10), "<p>no</p>", "<p>a page</p>"),
        (BlockPage(text="sorry", selector="form"), "<form>Sorry</form>", "<p>Sorry</p>"),
    ],
)
def test_a_user_declares_what_a_block_page_looks_like(rule: BlockPage, blocked: str, passes: str) -> None:
    assert why(page(blocked), rule) == f"a page with {rule}"
    assert why(page(passes), rule) == ""


def test_a_redirect_to_a_block_page_is_one() -> None:
    rule = BlockPage(redirected_to="/sorry/")
    sorry = page("<p>", url="https://shop.example/sorry/index")
    assert why(sorry, rule, asked="https://shop.example/x") == "a page with redirected_to='/sorry/'"
    assert why(sorry, rule, asked="https://shop.example/sorry/index") == "", "the page itself was asked for"


def test_a_page_far_shorter_than_usual_is_a_block_page_once_the_usual_size_is_known() -> None:
    detector = BlockDetector([BlockPage(shorter_than_usual=10)])
    short, usual = page("x" * 100), page("x" * 1000)
    assert detector.why(short, short.url) == ""
    for _ in range(20):
        assert detector.why(usual, usual.url) == ""
    for _ in range(50):
        assert detector.why(short, short.url), "block pages do not become usual"
    assert detector.why(page("x" * 101), short.url) == ""
    other = page("x" * 100, url="https://other.example/")
    assert detector.why(other, other.url) == "", "each host has its own usual size"


def test_a_failed_status_is_no_block_page() -> None:
    assert why(page(CHALLENGE, status=404), BlockPage(text="shop")) == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (BlockPage, "has no sign"),
        (lambda: BlockPage(shorter_than_usual=0.5), "a factor above 1"),
        (lambda: BlockPage(shorter_than=-1), "a number of bytes"),
        (lambda: BlockPage(selector="p["), "not a CSS selector"),
        (lambda: parse_block_pages("title"), "SIGN=VALUE"),
        (lambda: parse_block_pages("colour=red"), "SIGN=VALUE"),
        (lambda: parse_block_pages("shorter_than=few"), "not a number"),
    ],
)
def test_a_wrong_declaration_names_its_fault(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]


def test_a_wrong_declaration_of_a_handler_names_the_handler() -> None:
    with pytest.raises(HandlerFileError, match="'item' has a wrong block_pages"):

        @handler("item", block_pages=["Robot Check"])  # type: ignore[list-item]
        async def item(job: Job) -> None: ...


def test_a_setting_declares_several() -> None:
    assert parse_block_pages("title=Robot Check; shorter_than=500;") == (
        BlockPage(title="Robot Check"),
        BlockPage(shorter_than=500),
    )
    assert parse_block_pages(None) == ()


# What happens


@pytest.mark.ledger("F13")
async def test_it_counts_as_a_refusal_and_is_tried_again(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    site.script["/x"] = [Answer(CHALLENGE, headers=HTML), Answer("<h1>Lamp</h1>", headers=HTML)]
    assert (await http.get(f"{site.url}/x")).text_of("h1") == "Lamp"
    assert [status for _, _, status, _ in pace.answers] == [BLOCK_PAGE, 200]


async def test_a_page_that_stays_blocked_is_an_error_that_passes(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer(CHALLENGE, headers=HTML)]
    with pytest.raises(BlockPageError, match="answered 200 OK with a challenge of Cloudflare") as caught:
        await http.get(f"{site.url}/x")
    assert caught.value.retryable
    assert Failure.of(caught.value).label == "processing (BlockPageError)"
    assert len(site.asked("/x")) == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.why) == (str(caught.value), "a challenge of Cloudflare")


async def test_a_handler_that_wants_the_page_gets_it(site: ScriptedSite, http: Http, pace: NotingPace) -> None:
    site.script["/x"] = [Answer(CHALLENGE, headers=HTML)]
    response = await http.get(f"{site.url}/x", check=False)
    assert "_cf_chl_opt" in response.text
    assert pace.answers[0][2] == BLOCK_PAGE


async def test_a_block_page_is_not_kept_in_the_cache(site: ScriptedSite, tmp_path: Path) -> None:
    site.script["/x"] = [Answer("<p>Robot Check</p>", headers=HTML), Answer("<h1>Lamp</h1>", headers=HTML)]
    cache = PageCache(tmp_path)
    careless = Http(cache=cache, robots=False)
    await careless.get(f"{site.url}/x")
    await careless.close()
    careful = Http(cache=cache, robots=False, retries=0, block_pages=(BlockPage(text="robot check"),))
    assert (await careful.get(f"{site.url}/x")).text_of("h1") == "Lamp", "one that is kept already is fetched again"
    site.script["/y"] = [Answer("<p>Robot Check</p>", headers=HTML), Answer("<h1>Lamp</h1>", headers=HTML)]
    with pytest.raises(BlockPageError):
        await careful.get(f"{site.url}/y")
    assert (await careful.get(f"{site.url}/y")).text_of("h1") == "Lamp"
    await careful.close()


async def test_the_proxy_is_blamed_and_another_one_is_taken(site: ScriptedSite, pace: NotingPace) -> None:
    first, second = ProxyServer("127.0.1.1"), ProxyServer("127.0.1.2")
    site.script["/x"] = lambda request: Answer(CHALLENGE if request.remote == "127.0.1.1" else "<p>Hi", headers=HTML)
    async with running(first, second):
        limits = ProxyLimits(threshold=1, rest=timedelta(hours=1))
        pool = ProxyPool([first.proxy, second.proxy], strategy=Strategy.ROUND_ROBIN, limits=limits)
        http = Http(proxies=pool, pace=pace, clock=SwiftClock(), robots=False)
        for _ in range(4):
            assert (await http.get(f"{site.url}/x")).text == "<p>Hi"
        await http.close()
    remotes = [asked.remote for asked in site.requests]
    assert remotes.count("127.0.1.1") == 1, "it rests after the block page"
    statuses = [status for _, _, status, _ in pace.answers]  # either proxy may be the first
    assert (statuses.count(None), statuses.count(200), len(statuses)) == (1, 4, 5)


async def test_a_host_that_sends_only_block_pages_is_closed(site: ScriptedSite) -> None:
    limiter = LearnedLimiter(clock=SwiftClock())
    http = Http(pace=limiter, clock=SwiftClock(), robots=False, retries=0, patience=timedelta(seconds=1))
    site.script["/x"] = [Answer(CHALLENGE, headers=HTML)]
    errors: list[BaseException] = []
    for _ in range(20):
        with pytest.raises((BlockPageError, HostClosedError)) as caught:
            await http.get(f"{site.url}/x")
        errors.append(caught.value)
    await http.close()
    await limiter.close()
    closed = next(error for error in errors if isinstance(error, HostClosedError))
    assert "takes no requests" in str(closed)


async def test_a_reply_of_a_kept_block_page_fails_as_it_did(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer("<p>Robot Check", headers=HTML)]

    @handler("item", block_pages=[BlockPage(text="robot check")])
    async def item(job: Job, kit: AsyncKit) -> str:
        return (await kit.http.get(f"{site.url}/x")).text

    seen: list[Exchange] = []
    with pytest.raises(BlockPageError):
        await http.attempt(watch=seen.append, block_pages=item.block_pages).get(f"{site.url}/x")
    failure = failure_of(await run_offline(item, make_job(kind="item"), seen, "the bundle"))
    assert failure is not None
    assert failure.exception_name == "BlockPageError"
    site.script["/x"] = [Answer("<p>Robot Check", headers=HTML), Answer("<p>Lamp", headers=HTML)]
    site.requests.clear()
    seen.clear()
    await http.attempt(watch=seen.append, block_pages=item.block_pages).get(f"{site.url}/x")
    attempt = await run_offline(item, make_job(kind="item"), seen, "the bundle")
    assert failure_of(attempt) is None, "the answer that counts is the last one"
