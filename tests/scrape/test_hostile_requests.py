"""Requests that an attacker had a hand in: injected lines, redirects that collect secrets, cookies of other sites."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from aiohttp import web
from tests.scrape.scripted_site import Answer, ScriptedSite

from longshore.errors import ProcessingError, ValidationError
from longshore.scrape.http import Http
from longshore.scrape.http.cookies import MOST_JARS, CookieJar, CookieJars
from longshore.scrape.http.public_suffixes import is_public_suffix, same_site
from longshore.scrape.http.request import Request, make_request
from longshore.scrape.http.response import Response

Kind = Literal["aiohttp", "curl"]


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture(params=["aiohttp", "curl"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[Http]:
    made = Http(robots=False, retries=0, transport=request.param)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"X": "a\r\nInjected: 1"}),
        ("GET", {"X": "a\nInjected: 1"}),
        ("GET", {"X": "a\rInjected: 1"}),
        ("GET", {"X": "a\0"}),
        ("GET", {"X: a\r\nInjected": "1"}),
        ("GET", {"": "1"}),
        ("GET / HTTP/1.1\r\nInjected: 1\r\nX:", {}),
        ("", {}),
    ],
)
async def test_no_header_and_no_method_adds_a_line_to_a_request(
    http: Http, site: ScriptedSite, method: str, headers: dict[str, str]
) -> None:
    with pytest.raises(ValidationError) as caught:
        await http.request(method, f"{site.url}/x", headers=headers)
    assert "\n" not in str(caught.value)
    assert site.requests == []


@pytest.mark.parametrize("url", ["/a\r\nInjected: 1\r\nx: ", "/a HTTP/1.1\r\nInjected: 1\r\n\r\n"])
async def test_no_url_adds_a_line_to_a_request(http: Http, site: ScriptedSite, url: str) -> None:
    with contextlib.suppress(ValidationError, ProcessingError):
        await http.get(f"{site.url}{url}")
    assert not any("Injected" in name for asked in site.requests for name in asked.headers)


def redirected(status: int, to: str, **given: Any) -> Request | None:
    request = make_request("POST", "https://shop.example.co.uk/buy", **given)
    return request.redirected(Response(url=request.url, status=status, headers={"Location": to}))


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_to_another_site_does_not_get_the_body(status: int) -> None:
    with pytest.raises(ProcessingError, match=r"another site, evil\.co\.uk, which would get the body") as caught:
        redirected(status, "https://evil.co.uk/collect", data={"password": "hunter2"})
    assert not caught.value.retryable


@pytest.mark.parametrize("to", ["https://www.example.co.uk/buy", "http://shop.example.co.uk/buy", "/other"])
def test_a_redirect_within_a_site_gets_the_body(to: str) -> None:
    request = redirected(308, to, data=b"x")
    assert request is not None
    assert request.body == b"x"


def test_a_redirect_to_another_origin_gets_only_harmless_headers() -> None:
    secrets = {"X-Api-Key": "k", "X-Auth-Token": "t", "Cookie": "a=b", "Referer": "https://h/?token=1", "Accept": "*/*"}
    request = redirected(303, "https://evil.co.uk/", headers=secrets, data=b"x")
    assert request is not None
    assert (dict(request.headers), request.body) == ({"Accept": "*/*"}, None)


@pytest.mark.parametrize("domain", ["co.uk", ".co.uk", "uk", "github.io", "CO.UK", "com"])
def test_a_cookie_for_a_public_suffix_is_not_kept(domain: str) -> None:
    jar = CookieJar()
    host = f"evil.{domain.lower().strip('.')}"
    jar.store(f"https://{host}/", [f"sid=fixed; Domain={domain}; Path=/"])
    other = f"https://bank.{domain.lower().strip('.')}/"
    assert jar.with_cookies(other, {}) == {}
    assert len(jar) == 0


def test_a_site_that_is_itself_a_public_suffix_keeps_its_cookies_to_itself() -> None:
    jar = CookieJar()
    jar.store("https://github.io/", ["sid=1; Domain=github.io"])
    assert jar.with_cookies("https://github.io/", {}) == {"Cookie": "sid=1"}
    assert jar.with_cookies("https://someone.github.io/", {}) == {}


def test_a_cookie_for_a_domain_of_the_site_is_sent_to_its_other_hosts() -> None:
    jar = CookieJar()
    jar.store("https://login.shop.co.uk/", ["sid=1; Domain=shop.co.uk"])
    assert jar.with_cookies("https://www.shop.co.uk/", {}) == {"Cookie": "sid=1"}


def test_sites_are_told_apart_by_the_public_suffix_list() -> None:
    assert same_site("a.shop.co.uk", "b.shop.co.uk")
    assert not same_site("shop.co.uk", "bank.co.uk")
    assert not same_site("a.github.io", "b.github.io")
    assert not same_site("10.0.0.1", "11.0.0.1")
    assert same_site("localhost", "localhost")
    assert is_public_suffix("uk")
    assert not is_public_suffix("shop.co.uk")


async def test_runs_share_no_cookies_and_a_job_can_have_its_own(http: Http, site: ScriptedSite) -> None:
    def name_visitor(request: web.Request) -> Answer:
        return Answer(headers={"Set-Cookie": f"visit={len(site.requests)}; Path=/"})

    site.script["/in"] = name_visitor
    one, other = http.attempt(jar="run-1"), http.attempt(jar="run-2")
    await one.get(f"{site.url}/in")
    await other.get(f"{site.url}/x")
    await one.get(f"{site.url}/x", jar="job-7")
    await http.attempt(jar="run-1").get(f"{site.url}/x")
    cookies = [asked.headers.get("Cookie") for asked in site.asked("/x")]
    assert cookies == [None, None, "visit=1"]


def test_the_jars_of_many_runs_are_bounded() -> None:
    jars = CookieJars()
    first = jars.jar("first", "")
    kept = jars.jar("kept", "")
    for number in range(MOST_JARS - 1):
        jars.jar(f"run-{number}", "")
        jars.jar("kept", "")
    assert jars.jar("kept", "") is kept
    assert jars.jar("first", "") is not first
