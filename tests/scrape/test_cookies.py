"""Cookies as browsers keep them, with both transports. The cases are our own, by RFC 6265."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urljoin

import pytest
from tests.linear_time import assert_linear
from tests.scrape.scripted_site import SwiftClock

from longshore.scrape.http import cookies
from longshore.scrape.http.client import Http
from longshore.scrape.http.cookies import CookieJar

SITE = "http://shop.example.test:8888/list/page?x"
# The Set-Cookie headers of one page; the next page (here by default); the cookies that it gets.
Case = tuple[list[str], str, str]
VALUES: list[Case] = [
    (["a=b"], "", "a=b"),
    (["a=b", "c=d"], "", "a=b; c=d"),
    (["a=b", "a=c"], "", "a=c"),
    (["a=1", "b=1", "a=2"], "", "a=2; b=1"),
    (["a=b, c=d"], "", "a=b, c=d"),
    (["a=b c  d"], "", "a=b c  d"),
    (['a="b c"'], "", 'a="b c"'),
    (['a="b, c"; Path=/'], "", 'a="b, c"'),
    (['a="unfinished'], "", 'a="unfinished'),
    (['a=say "hi"'], "", 'a=say "hi"'),
    (['a={"b":[1,2]}'], "", 'a={"b":[1,2]}'),
    (["a=b=c=="], "", "a=b=c=="),
    (["a = b "], "", "a=b"),
    (["a=\tb"], "", "a=b"),
    (["a="], "", "a="),
    (["a=b;"], "", "a=b"),
    (["a=b;;;"], "", "a=b"),
    (["a=b;c=d"], "", "a=b"),
    (["a=b;unknown;other=1"], "", "a=b"),
    (["a=%20%22%C3%A9"], "", "a=%20%22%C3%A9"),
    (["a=grüße"], "", "a=grüße"),
    (["a=你好"], "", "a=你好"),
    (["a.b[c]@d=1"], "", "a.b[c]@d=1"),
    (["a/b:c?d=1"], "", "a/b:c?d=1"),
    (['"a"=1'], "", '"a"=1'),
    (["a b=1"], "", "a b=1"),
    (["Expires=1"], "", "Expires=1"),
    (["a"], "", ""),
    (["=b"], "", ""),
    ([";a=b"], "", ""),
    ([""], "", ""),
    (["a=b", "=", "c=d"], "", "a=b; c=d"),
    ([f"a={'x' * 4095}"], "", f"a={'x' * 4095}"),
    ([f"a={'x' * 4096}"], "", ""),
]
ATTRIBUTES: list[Case] = [
    (["a=b; Max-Age=100"], "", "a=b"),
    (["a=b; max-age=0"], "", ""),
    (["a=b; max-age=-5"], "", ""),
    (["a=b; max-age=soon"], "", "a=b"),
    (["a=b; max-age=99999999999999999999"], "", "a=b"),
    (["a=b", "a=c; max-age=0"], "", ""),
    (["a=b", "a=; expires=Thu, 01 Jan 1970 00:00:00 GMT"], "", ""),
    (["a=b; expires=Thu, 01 Jan 1970 00:00:00 GMT; max-age=100"], "", "a=b"),
    (["a=b; Expires=Fri, 07-Aug-2199 08:04:19 GMT"], "", "a=b"),
    (["a=b; expires=Friday, 07-Aug-99 08:04:19 GMT"], "", ""),
    (["a=b; expires=Aug 7 2199 8:4:19"], "", "a=b"),
    (["a=b; expires=Fri Aug  7 08:04:19 2001"], "", ""),
    (["a=b; expires=07 Aug 2001"], "", "a=b"),
    (["a=b; expires=never"], "", "a=b"),
    (["a=b; expires=Fri, 31 Feb 2001 08:04:19 GMT"], "", "a=b"),
    (["a=b; EXPIRES = Fri, 07 Aug 2001 08:04:19 GMT ; x"], "", ""),
    (["a=b; secure"], "", ""),
    (["a=b; Secure; HttpOnly"], "https://shop.example.test/", ""),
    (["a=b; HttpOnly; SameSite=Lax"], "", "a=b"),
    (["__Secure-a=b"], "", ""),
    (["__Host-a=b; path=/"], "", ""),
]
DOMAINS: list[Case] = [
    (["a=b"], "http://shop.example.test/list/", "a=b"),
    (["a=b"], "http://example.test/list/", ""),
    (["a=b"], "http://my.shop.example.test/list/", ""),
    (["a=b; domain=example.test"], "http://example.test/list/", "a=b"),
    (["a=b; domain=.example.test"], "http://www.example.test/list/", "a=b"),
    (["a=b; domain=..example.test"], "", ""),
    (["a=b; DOMAIN = Example.TEST "], "http://www.example.test/list/", "a=b"),
    (["a=b; domain=shop.example.test"], "http://my.shop.example.test/list/", "a=b"),
    (["a=b; domain="], "http://my.shop.example.test/list/", ""),
    (["a=b; domain=."], "", "a=b"),
    (["a=b; domain=my.shop.example.test"], "http://my.shop.example.test/list/", ""),
    (["a=b; domain=ample.test"], "", ""),
    (["a=b; domain=other.test"], "", ""),
    (["a=b; domain=test"], "", ""),
    (["a=b; domain=.test"], "http://other.test/list/", ""),
    (["a=b; domain=example.test:8888"], "", ""),
    (["a=b; domain=http://example.test"], "", ""),
    (["a=b; domain=other.test; domain=example.test"], "", "a=b"),
    (["a=b; domain=example.test; domain=other.test"], "", ""),
]
PATHS: list[Case] = [
    (["a=b"], "/list/other", "a=b"),
    (["a=b"], "/list", "a=b"),
    (["a=b"], "/lists/other", ""),
    (["a=b"], "/", ""),
    (["a=b; path=/"], "/", "a=b"),
    (["a=b; path=/list/page"], "/list/page/2", "a=b"),
    (["a=b; path=/list/page"], "/list/pages", ""),
    (["a=b; path=/list/page/"], "/list/page", ""),
    (["a=b; Path = /list "], "/list/", "a=b"),
    (["a=b; path=list"], "", "a=b"),
    (["a=b; path="], "", "a=b"),
    (["a=b; path"], "", "a=b"),
    (["a=b; path=/other; path=/list"], "", "a=b"),
    (["a=b; path=/list; path=/other"], "", ""),
    (["a=b; path=/LIST"], "", ""),
    (["a=1; path=/", "a=2; path=/list", "b=3; path=/list/page"], "/list/page", "b=3; a=2; a=1"),
    (["b=1; path=/list", "a=2; path=/list"], "", "b=1; a=2"),
]
# Other spellings of the rules above, one row for each group of sites that have them.
NAMES: list[Case] = [
    *(([f"{name}=1"], "", f"{name}=1") for name in (*"7$!@#%^&*()-_+~|'.", "$n", "n(", 'n"o', '"p=q"')),
    (["$Path=1; n=2"], "", "$Path=1"),
    (["n =1   "], "", "n=1"),
    (["\tn\t=\t1 \t;\tx"], "", "n=1"),
    (["n====1"], "", "n====1"),
    (["n=== 1 ;x;;;   y"], "", "n=== 1"),
    (['"n=o"=1', '"n=2'], "", '"n=2'),
    *((lines, "", "") for lines in (["n;o=1"], ["==n"], ["=n=1", "o"], ["n", "o", "=p"], ["n", "; o"], ["n", "\t"])),
    *(([f'"n{between}o"=1'], "", "") for between in (";", '\\";')),
    (["n", "=1", "o=2"], "", "o=2"),
    (["n=1", "o=", "p=2"], "", "n=1; o=; p=2"),
    (["p=1", "n=2"], "", "p=1; n=2"),
    (["名=前"], "", "名=前"),
    (["名=前; 値"], "", "名=前"),
    (['n="前"'], "", 'n="前"'),
    *(([f"n={value}{end}"], "", f"n={value}")
      for value in ('"b "', '"b', 'a"b', '"b c"  "d"', '"b=c"') for end in ("", "   ;", " ; ;")),
    (['n="b;c"'], "", 'n="b'),
    (["n=x, o=y"], "", "n=x, o=y"),
    (["n=x; y=z, o=y"], "", "n=x"),
    (["n=x; y,z=1"], "", "n=x"),
]  # fmt: skip
SPELLINGS: list[Case] = [
    *(([f"a=b{spelt}"], "", "") for spelt in (
        "; secURE", ";Secure;x", "; Secure=", "; Secure=no", "; Secure =no", "; Secure= no", ";     Secure    ;",
        "; x; Secure", '; x="y;z"; Secure', "; secure; secure=0")),
    *(([f"a=b{spelt}"], "", "a=b") for spelt in (
        '; "Secure"', "; Secure x", "; version=1;", "; version=2", '; x="1 or 2"', '; x="1 or 2";', "; x y z",
        "; max-age=60;", "; max-age=6,0", "; max-age=60, c=d;path=/", "; max-age=+60", "; max-age=6e1", "; max-age=1.5",
        "; max-age", "; max-age=", "; expires", "; expires=", "; expires=60", "; expires=Thu Jan 1 00:00 1970",
        "; expires=Sun, 18-Apr-2199 21:06:29 GMT ; path=/  ;  ")),
    (["a=b; max-age=60", "c=d; max-age=60", "a=e; max-age=0"], "", "c=d"),
    (["a=b; max-age=60", "c=d; max-age=0"], "", "a=b"),
    (["a=b; max-age=0; max-age=60"], "", "a=b"),
    (["a=b; max-age=60; max-age=0"], "", ""),
    (["a=b; expires=Fri, 07 Aug 2001 08:04:19 GMT", "c=d; expires=Fri, 07 Aug 2199 08:04:19 GMT"], "", "c=d"),
    (["a=b; domain=.test; ;; ;=; ,,, ===,c,=; d! max-age=20;=;;"], "", ""),
    (['a="b! = c;d\\";" e; max-age=6', "f; max-age=2.63,"], "", 'a="b! = c'),
]  # fmt: skip
DOMAIN_SPELLINGS: list[Case] = [
    *(([f"a=b; domain={domain}"], "", "a=b") for domain in (
        "shop.example.test", ".shop.example.test", "  .shop.example.test", "sHOP.eXample.test", ".example.test",
        "x.test; domain=example.test", "example.test; domain=shop.example.test",
        "shop.example.test; domain=.example.test",
        "shop.example.test; domain=shop.example.test", "x.test; domain=y.test; domain=shop.example.test")),
    *(([f"a=b; domain={domain}"], "", "") for domain in (
        "shop..example.test", "  .  shop.example.test", "shop.example.test.", "shop.example.test..",
        "shop.example.test .", ".test.", '"shop.example.test"', "x.shop.example.test", ".x.shop.example.test",
        "x.example.test", ".x.example.test", "shop.example.test; domain=shop.example.org",
        "x.test; domain=shop.example.test; domain=x.test", "*.example.test", "shop.example.test/list")),
    *(([f"a=b; domain={domain}"], f"http://{to}/list/", "a=b") for domain, to in (
        ("shop.example.test", "my.shop.example.test"), (".shop.example.test", "my.shop.example.test"),
        ("example.test", "x.example.test"), ("shop.example.test; domain=.example.test", "x.example.test"))),
    *(([f"a=b; domain={domain}"], f"http://{to}/list/", "") for domain, to in (
        ("shop.example.test", "x.example.test"), (".shop.example.test", "example.test"),
        (".example.test; domain=shop.example.test", "x.example.test"), (".x.example.test", "x.example.test"),
        (".x.shop.example.test", "x.shop.example.test"), ("example.test; domain=", "x.example.test"))),
    (["a=1; domain=shop.example.test", "b=2; domain=.shop.example.test"], "", "a=1; b=2"),
    (["b=2; domain=.example.test", "a=1; domain=shop.example.test"], "", "b=2; a=1"),
    (["a=1", "a=2; domain=example.test"], "", "a=1; a=2"),
]  # fmt: skip
PATH_SPELLINGS: list[Case] = [
    *(([f"a=b; path{path}"], to, "a=b") for path, to in (
        ("= /list", ""), ("\t=\t/list\t", ""), ("=/x; path=/", ""), ("=/x; path=", ""), ('="/x"', ""),
        ("=/list/page/x", "/list/page/x"), ("=/list/page/x/", "/list/page/x/"), ("=/list/", "/list//page"),
        ("=/list/page;x", "/list/page"), ("=/list", "/list?page"), ("=/list", "/list/page/../other"))),
    *(([f"a=b; path{path}"], to, "") for path, to in (
        ("=/x", ""), ("    =/x", ""), ("=    /x", ""), ("=/x      ; y", ""), ("=/; path=/x", ""), ("=; path=/x", ""),
        ("=/list/page/x", "/list/page"), ("=/list/page/x", "/list/other/x"), ("=/list/page/x", "/list/page/y"),
        ("=/list/page/x/", "/list/page/x"), ("=/list/page/", "/list/pages"), ("=/list/page?", "/list/page"),
        ("=/list/page#", "/list/page"), ("=/l%69st", "/list/page"), ("=/list/../x", "/x"))),
    (["a=1; path=/list", "b=2; path=/"], "", "a=1; b=2"),
    (["b=2; path=/", "a=1; path=/list"], "", "a=1; b=2"),
    (["a=1", "a=2; path=/list/page/x"], "/list/page", "a=1"),
    (["a=1; path=/list", "a=2; path=/list/"], "/list/other", "a=2; a=1"),
    (["\ta=1; \tpath\t=\t/list\t", "b=2; \tpath\t=\t/x\t"], "", "a=1"),
    (
        ["k=0;", "k=1; path=/list/page", "k=2; path=/", "k=3; path=/x", "k=4; domain=.example.test",
         "k=5; domain=.example.test; path=/list/page/x"],
        "/list/page/x/y",
        "k=5; k=1; k=0; k=4; k=2",
    ),
]  # fmt: skip
CASES = [*VALUES, *ATTRIBUTES, *DOMAINS, *PATHS, *NAMES, *SPELLINGS, *DOMAIN_SPELLINGS, *PATH_SPELLINGS]


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[list[bytes]], list[bytes]]]:
    """Run a proxy that answers itself: first with the scripted headers and a redirect, then with a page.

    Yield its URL, the scripted headers of each answer, and the requests. So no host name is looked up.
    """
    script: list[list[bytes]] = []
    asked: list[bytes] = []

    serving: set[asyncio.Task[None] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        while True:
            try:
                asked.append(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                break
            lines = script.pop(0) if script else []
            status = b"302 Found" if any(line.startswith(b"Location") for line in lines) else b"200 OK"
            writer.write(b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"Content-Length: 0", b"", b""]))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", script, asked
    finally:
        server.close()
        # The clients have closed their connections, so each of these ends.
        await asyncio.gather(*(task for task in serving if task is not None))


def cookies_of(request: bytes) -> str:
    found = [line for line in request.split(b"\r\n") if line.lower().startswith(b"cookie:")]
    return found[0][7:].strip().decode() if found else ""


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_every_cookie_goes_back_as_it_came_and_only_where_it_belongs(
    transport: Literal["aiohttp", "curl"],
) -> None:
    async with proxy() as (url, script, asked):
        for lines, to, expected in CASES:
            if urljoin(SITE, to).startswith("https"):
                continue
            http = Http(transport=transport, robots=False, retries=0)
            script.append([f"Set-Cookie: {line}".encode() for line in lines])
            script[-1].append(f"Location: {urljoin(SITE, to or SITE)}".encode())
            await http.get(SITE, proxy=url)
            await http.close()
            assert cookies_of(asked[-1]) == expected, f"{lines} then {to}"


@pytest.mark.parametrize(("lines", "to", "expected"), CASES)
def test_the_jar_keeps_and_returns_cookies(lines: list[str], to: str, expected: str) -> None:
    jar = CookieJar()
    jar.store(SITE, lines)
    assert jar.with_cookies(urljoin(SITE, to or SITE), {}).get("Cookie", "") == expected


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_a_cookie_that_is_not_utf_8_harms_nothing(transport: Literal["aiohttp", "curl"]) -> None:
    http = Http(transport=transport, robots=False, retries=0)
    async with proxy() as (url, script, asked):
        script.append([b"Set-Cookie: a=caf\xe9", b"Set-Cookie: b=1"])
        await http.get(SITE, proxy=url)
        await http.get(SITE, proxy=url)
        await http.close()
    assert "b=1" in cookies_of(asked[-1])


def sent(jar: CookieJar, url: str = SITE, **headers: str) -> str:
    return jar.with_cookies(url, headers).get("Cookie", "")


def test_a_secure_cookie_is_for_encrypted_pages_only_and_plain_ones_do_not_replace_it() -> None:
    jar = CookieJar()
    jar.store("https://x.test/", ["a=1; secure", "__Secure-b=2; secure", "__Host-c=3; secure; path=/"])
    jar.store("https://x.test/", ["__Host-d=4; secure; path=/; domain=x.test", "__Host-e=5; secure; path=/below"])
    jar.store("http://x.test/", ["a=stolen", "f=6"])
    assert sent(jar, "https://x.test/") == "a=1; __Secure-b=2; __Host-c=3; f=6"
    assert sent(jar, "http://x.test/") == "f=6"


def test_sites_without_a_name_have_cookies_of_their_own() -> None:
    jar = CookieJar()
    jar.store("http://192.0.2.7/", ["a=1", "b=2; domain=192.0.2.7", "c=3; domain=2.7", "d=4; domain=0.2.7"])
    jar.store("http://[2001:db8::1]/", ["e=5"])
    assert sent(jar, "http://192.0.2.7/") == "a=1; b=2"
    assert sent(jar, "http://1.192.0.2.7/") == ""
    assert sent(jar, "http://[2001:db8::1]/") == "e=5"


def test_a_cookie_header_of_the_caller_counts_before_the_jar() -> None:
    jar = CookieJar()
    jar.store(SITE, ["a=jar", "b=jar"])
    assert jar.with_cookies(SITE, {"cookie": "a=mine; c=mine"}) == {"cookie": "a=mine; c=mine; b=jar"}
    assert jar.with_cookies("http://other.test/", {"cookie": "a=mine"}) == {"cookie": "a=mine"}


def test_a_cookie_expires() -> None:
    clock = SwiftClock()
    jar = CookieJar(clock)
    jar.store(SITE, ["a=1; max-age=60", "b=2"])
    clock.passed = 59
    assert sent(jar) == "a=1; b=2"
    clock.passed = 61
    assert sent(jar) == "b=2"


def test_the_cookies_of_a_domain_and_of_a_jar_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cookies, "MOST_OF_DOMAIN", 3)
    monkeypatch.setattr(cookies, "MOST_COOKIES", 5)
    jar = CookieJar()
    for number in range(5):
        jar.store(SITE, [f"c{number}=1"])
    assert sent(jar) == "c2=1; c3=1; c4=1"
    jar.store("http://two.test/", ["a=1", "b=1"])
    jar.store(SITE, ["c4=2"])
    jar.store("http://three.test/", ["a=1"])
    assert sent(jar) == "c2=1; c3=1; c4=2", "visited after two.test"
    assert sent(jar, "http://two.test/") == ""
    assert len(jar) == 4


@pytest.mark.parametrize("line", ["a=;", "a;", "=", ";domain=", "a=b; expires=1:", "a=b; expires=1 "])
def test_reading_a_cookie_takes_linear_time(line: str) -> None:
    assert_linear(lambda lines: CookieJar().store(SITE, lines), lambda length: [line * length], small=20_000)
