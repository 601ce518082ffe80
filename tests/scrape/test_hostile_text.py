"""A page chooses much of the text that we read. Each reader of it takes linear time and a bounded share of memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.linear_time import assert_linear

from longshore.errors import Failure, ProcessingError
from longshore.masking import is_secret, mask_address, mask_text
from longshore.runs.sources.sitemap import _listed
from longshore.scrape.capture.masking import mask_body, mask_headers
from longshore.scrape.html.nesting import nesting
from longshore.scrape.http.address_policy import AddressPolicy, PrivateAddressError, literal_address
from longshore.scrape.http.cookies import CookieJar
from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response, retry_after
from longshore.scrape.http.robots import _rule
from longshore.scrape.proxies.proxy_file import checked_proxy
from longshore.system.printable import indented, printable_json
from longshore.url import canonical_url, clean_url, host_of, mask_url, mask_urls

Reader = Callable[[str], object]


def redirect(text: str) -> object:
    answer = Response(url="http://h/", status=302, headers={"Location": text})
    try:
        return Request("GET", "http://h/").redirected(answer)
    except ProcessingError:
        return None


def judge(text: str) -> None:
    with suppress(PrivateAddressError):
        AddressPolicy().check_text(text, own=False)


def read_proxy(text: str) -> object:
    try:
        return checked_proxy(text)
    except ValueError:
        return None


def keep_cookie(text: str) -> object:
    jar = CookieJar()
    jar.store("http://a.h.test/", [text])
    return jar.with_cookies("http://a.h.test/", {})


def cookies_of_host(text: str) -> object:
    jar = CookieJar()
    jar.store("http://h.test/", ["a=b"])
    with suppress(ValueError):
        return jar.with_cookies(f"http://{text}.h.test/", {})
    return None


def decode(text: str) -> object:
    body = text.encode(errors="replace")
    page = Response(url="http://h/", headers={"Content-Type": "text/html"}, body=body)
    named = Response(url="http://h/", headers={"Content-Type": f"text/html; charset={text[:200]}"}, body=body)
    return page.text, named.text


def obey_robots(text: str) -> object:
    from protego import Protego

    rules = f"User-agent: *\nDisallow: /{text}\nDisallow: /x"
    return Protego.parse(rules).can_fetch("http://h/x" + "ab" * 50, "longshore"), _rule(
        rules, "http://h/x", "longshore"
    )


def read_html(text: str) -> object:
    page = Response(url="http://h.test/", body=text.encode(errors="replace"))
    with suppress(ProcessingError):
        page.css("div p a"), page.links("div, p", same_host=False), page.json_ld(), page.meta(), page.form()
    return nesting(text)


def read_sitemap(text: str) -> object:
    return list(_listed(text, "http://h.test/")), list(_listed(f"<url><loc>{text}", "http://h.test/"))


READERS: dict[str, Reader] = {
    "a masked text": mask_text,
    "a masked address": mask_address,
    "a masked URL": mask_url,
    "the URLs of a text": mask_urls,
    "a masked body": lambda text: mask_body(text.encode(errors="replace")),
    "a masked part": lambda text: mask_body(b'--b\r\nx; name="' + text.encode(errors="replace")),
    "masked headers": lambda text: mask_headers({text: text}),
    "the name of a secret": is_secret,
    "a failure": lambda text: Failure.of(RuntimeError(text)),
    "a canonical URL": canonical_url,
    "a clean URL": clean_url,
    "a host": host_of,
    "an address": literal_address,
    "a judged host": judge,
    "a redirect": redirect,
    "Retry-After": lambda text: retry_after({"Retry-After": text}),
    "a cookie": keep_cookie,
    "the cookies of a host": cookies_of_host,
    "a decoded page": decode,
    "robots.txt": obey_robots,
    "a line of a proxy list": read_proxy,
    "an HTML page": read_html,
    "a sitemap": read_sitemap,
    "a log line": lambda text: indented(text, "    "),
    "printed JSON": printable_json,
}
UNITS = [
    *("a.", "a", " ", "\n", ":", "=", "-", ".", "/", "*", "*a", "@", ";", "[", "(", "'", '"', "%", "\x1b", "ß", "é."),
    *("password", "password ", "password=", "token:", "a=", "a=a:", "eyJaaaaaa.", "sess", "a-", "Cookie: ", "aB"),
    *("-----BEGIN PRIVATE KEY-----", "a.b:80:", "a.b:80:u:", "1.", "0x", "http://", "a://b:c@", 'name="a"\r\n', "\r\n"),
    *("<div>", "<a href=x>", "<font x>", "</p>", "<!--", "<script>", "<form><input name=a>", "<meta name=a content=b>"),
    *("<url>", "<url><loc>", "<url><loc>x</loc></url>", "</url>", "<link href='", "<lastmod>2", "<sitemap>", "<loc>a"),
    *("Disallow: /*a\n", "User-agent: a\n", "Domain=h.test;", "Expires=1 Jan;", "&amp;", "<meta charset=", "x,", "sk-"),
]


def repeated(unit: str, length: int) -> str:
    return unit * (length // len(unit))


@pytest.mark.parametrize("reader", READERS)
def test_no_repeated_unit_costs_more_than_linear_time(reader: str) -> None:
    for unit in UNITS:
        assert_linear(READERS[reader], partial(repeated, unit))


texts = st.text(st.sampled_from("?&#=;:@/. [](){}'\"%-_*$,\\\r\n\x1b<>tokensigauthpwéß0x1"), min_size=1, max_size=8)


@given(st.sampled_from(sorted(READERS)), texts, texts, texts)
@example("a masked text", "", "password", " ")
@settings(deadline=None, max_examples=150)
def test_no_text_of_a_page_costs_more_than_linear_time(reader: str, begin: str, unit: str, end: str) -> None:
    assert_linear(READERS[reader], lambda n: begin + unit * (n // len(unit)) + end)


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_needs_many_times_the_memory_of_its_text(reader: str) -> None:
    read = READERS[reader]
    read("warm up")
    for unit in UNITS:
        text = unit * (50_000 // len(unit))
        tracemalloc.start()
        try:
            read(text)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 200 * len(text), f"{reader}: {peak:,} bytes for {len(text):,} characters of {unit!r}"
